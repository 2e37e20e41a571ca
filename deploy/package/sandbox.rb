# The formula for Homebrew. scripts/dist.sh puts in the version and the checksum of
# the source archive.
class Sandbox < Formula
  desc "Run untrusted code in sandboxes"
  homepage "https://github.com/bulkhead-dev/sandbox"
  url "https://github.com/bulkhead-dev/sandbox/releases/download/v@VERSION@/sandbox-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "go" => :build

  def install
    system "make", "build", "BIN=#{buildpath}/out", "STAMP=-buildvcs=false"
    libexec.install Dir["out/sandbox*"]
    bin.install_symlink libexec/"sandbox"
    generate_completions_from_executable(libexec/"sandbox", "completion")
  end

  test do
    assert_match "spec", shell_output("#{bin}/sandbox version")
  end
end
