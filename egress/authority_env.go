package egress

import "github.com/bulkhead-dev/sandbox"

// Env returns the variables that make common programs trust the authority,
// with paths under [sandbox.TrustDir]. The caller owns the map.
//
// Most variables replace a program's own roots and name the whole bundle;
// those of Node and Deno add to them and name the authority alone.
// SSL_CERT_DIR is not set: the folder has no hash index for OpenSSL, and Go
// reads SSL_CERT_FILE beside it. Java's key store can be named only by a
// variable that makes programs print a message, so Java is not covered.
func (a *Authority) Env() map[string]string { return variables() }

func variables() map[string]string {
	const (
		bundle = sandbox.TrustDir + "/" + bundleFile
		ours   = sandbox.TrustDir + "/" + certFile
	)
	env := map[string]string{
		"NODE_EXTRA_CA_CERTS": ours, // Node, Bun, and programs built on them
		"DENO_CERT":           ours,
		"WGETRC":              sandbox.TrustDir + "/" + wgetFile, // in place of ~/.wgetrc
	}
	for _, name := range []string{
		"SSL_CERT_FILE",      // OpenSSL, LibreSSL, Go, Python, Ruby, PHP, .NET, Rust
		"CURL_CA_BUNDLE",     // curl
		"REQUESTS_CA_BUNDLE", // Python's requests, conda
		"PIP_CERT",           // pip
		"GIT_SSL_CAINFO",     // git
		"npm_config_cafile",  // npm, pnpm, Yarn 1
		"YARN_HTTPS_CA_FILE_PATH",
		"CARGO_HTTP_CAINFO",                  // cargo
		"AWS_CA_BUNDLE",                      // AWS's programs and libraries
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", // gcloud
		"NIX_SSL_CERT_FILE",                  // Nix, and curl of nixpkgs
		"BUNDLE_SSL_CA_CERT",                 // Ruby's bundler
		"COMPOSER_CAFILE",                    // PHP's composer
		"HEX_CACERTS_PATH",                   // Elixir's hex
		"PERL_LWP_SSL_CA_FILE",               // Perl's LWP
		"HTTPLIB2_CA_CERTS",                  // Python's httplib2
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",   // gRPC's C core
		"JULIA_SSL_CA_ROOTS_PATH",
	} {
		env[name] = bundle
	}
	return env
}
