package path

// credentialRows are keys and credentials of machines, clouds, engines and
// clusters. Their settings are among them: many name programs to run.
var credentialRows = []row{
	{CategorySSH, high, critical, "it holds keys and settings of SSH", []string{"**/.ssh", "~/.config/ssh", "~/.putty"}, nil},
	{CategorySSH, high, critical, "it is a private key of this machine", []string{"/etc/ssh/ssh_host_*_key"}, nil},
	{CategorySSH, none, critical, "the SSH server and client obey it", []string{"/etc/ssh"}, nil},
	{CategoryKeys, high, critical, "it holds private keys of GnuPG", []string{"**/.gnupg"}, nil},
	{CategoryKeys, high, high, "by its name it is a private key", []string{
		"**/id_rsa*", "**/id_dsa*", "**/id_ecdsa*", "**/id_ed25519*", "**/id_xmss*", "**/*_rsa", "**/*_ed25519", "**/*.ppk", "**/*.p12", "**/*.pfx", "**/*.jks", "**/*.keystore", "**/*.asc.key",
	}, []string{"*.pub"}},
	{CategoryKeys, medium, medium, "by its name it may be a private key", []string{"**/*.pem", "**/*.key", "**/*.keytab"}, []string{"*.pub.pem", "cacert.pem", "ca-certificates.pem"}},
	{CategoryKeys, high, critical, "it holds private keys of this machine", []string{
		"/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt/archive", "/etc/letsencrypt/live", "/etc/letsencrypt/accounts", "/etc/wireguard", "/etc/krb5.keytab",
		"/etc/openvpn", "/etc/ipsec.secrets", "/etc/ipsec.d/private", "/etc/NetworkManager/system-connections", "/etc/ppp/chap-secrets", "/etc/ppp/pap-secrets",
	}, nil},

	{CategoryCloud, high, critical, "it holds credentials of a cloud", []string{
		"**/.aws", "~/.config/gcloud", "**/.azure", "~/.config/doctl", "~/.oci", "~/.aliyun", "~/.bluemix", "~/.tccli", "~/.config/hcloud", "~/.config/linode-cli",
		"~/.config/scw", "~/.config/upctl", "~/.config/exoscale", "~/.config/openstack", "~/.ibmcloud", "~/.yandex", "~/.config/yandex-cloud",
		"~/.boto", "~/.s3cfg", "~/.gsutil", "~/.config/rclone", "~/.mc", "~/.vault-token", "~/.config/consul", "~/.nomad-token",
		"~/.terraform.d/credentials.tfrc.json", "~/.terraformrc", "~/.config/opentofu", "~/.pulumi/credentials.json", "~/.config/pulumi",
		"~/.fly", "~/.config/heroku", "~/.wrangler", "~/.config/.wrangler", "~/.vercel", "~/.config/netlify", "~/.netlify", "~/.railway", "~/.config/stripe", "~/.firebase",
		"~/.config/configstore", "~/.config/gh", "~/.config/glab-cli", "~/.config/hub", "~/.config/tea", "~/.circleci", "~/.travis", "~/.sentryclirc", "~/.snowsql",
		"**/application_default_credentials.json", "**/.boto", "**/.s3cfg",
	}, nil},
	{CategoryCloud, high, high, "it may hold credentials of a cloud", []string{
		"**/*.tfvars", "**/*.tfvars.json", "**/*.tfstate", "**/*.tfstate.backup", "**/serviceAccountKey.json", "**/service-account*.json", "**/gcp-key*.json", "**/accessKeys.csv", "**/*_accessKeys.csv",
	}, []string{"*.example.tfvars", "example.tfvars"}},

	{CategoryContainer, critical, critical, "a program that connects to it is root on the host", []string{
		"/run/docker.sock", "/run/docker", "/run/containerd", "/run/crio", "/run/podman", "/run/buildkit", "/run/user/*/docker.sock", "/run/user/*/podman", "/run/user/*/containerd",
		"/run/snapd.socket", "/run/lxd.socket", "/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd",
	}, nil},
	{CategoryContainer, high, critical, "it holds sockets of a container engine", []string{"~/.colima", "~/.lima", "~/.orbstack", "~/.rd"}, nil},
	{CategoryContainer, high, critical, "it holds credentials of container registries", []string{
		"~/.docker", "**/.docker/config.json", "**/.docker/contexts", "**/.docker/.token_seed", "~/.config/containers", "~/.config/docker", "**/.dockercfg", "**/.dockerconfigjson", "/run/containers/*/auth.json", "/run/user/*/containers/auth.json",
	}, nil},
	{CategoryContainer, none, critical, "the container engine obeys it", []string{"/etc/docker", "/etc/containerd", "/etc/containers", "/etc/crio"}, nil},
	{CategoryContainer, high, critical, "it holds the containers of this machine", []string{"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet"}, nil},
	{CategoryContainer, high, critical, "it holds credentials of clusters", []string{
		"**/.kube", "**/kubeconfig", "**/*.kubeconfig", "/etc/kubernetes", "/etc/rancher", "/run/secrets", "~/.config/helm", "~/.helm", "~/.config/argocd", "~/.argocd", "~/.rancher", "~/.talos", "**/talosconfig",
	}, nil},
}

// packageRows are credentials and settings of package managers and build
// tools.
var packageRows = []row{
	{CategoryPackages, high, critical, "it holds credentials of a package registry", []string{
		"~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml", "~/.bunfig.toml", "~/.config/pnpm", "**/.pypirc", "~/.config/pypoetry/auth.toml", "~/Library/Application Support/pypoetry/auth.toml", "~/.config/uv",
		"~/.config/pip", "~/.pip", "~/.condarc", "~/.conda", "**/.netrc", "**/_netrc", "~/.authinfo", "~/.authinfo.gpg",
		"~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials", "~/.local/share/gem/credentials", "~/.bundle/config", "~/.composer/auth.json", "~/.config/composer",
		"~/.gradle/gradle.properties", "~/.m2/settings.xml", "~/.m2/settings-security.xml", "~/.ivy2/.credentials", "~/.sbt/.credentials", "~/.sbt/credentials",
		"~/.nuget/NuGet", "~/.config/NuGet", "~/.hex", "~/.pub-cache/credentials.json", "~/.config/dart", "~/.cocoapods", "~/.config/jfrog", "~/.jfrog", "~/.stack/config.yaml", "~/.cpan",
		"~/.huggingface", "~/.cache/huggingface/token", "~/.cache/huggingface/stored_tokens", "~/.config/huggingface", "~/.kaggle", "~/.config/kaggle", "~/.config/wandb",
	}, nil},
	{CategoryPackages, medium, high, "it may hold credentials of a package registry, and names where packages come from", []string{
		"**/.npmrc", "**/.yarnrc.yml", "**/bunfig.toml", "**/pip.conf", "/etc/pip.conf", "/etc/npmrc", "**/.gem/credentials", "**/.bundle/config", "**/auth.json", "**/nuget.config", "**/NuGet.Config",
	}, nil},
	{CategoryPackages, none, critical, "a build tool obeys it, and runs the programs that it names", []string{
		"~/.cargo/config", "~/.cargo/config.toml", "~/.gradle/init.gradle", "~/.gradle/init.gradle.kts", "~/.gradle/init.d", "~/.m2/extensions.xml", "~/.mavenrc", "~/.sbt/1.0",
		"~/.config/go/env", "~/Library/Application Support/go/env", "~/.rpmmacros", "~/.config/mise", "~/.asdfrc", "~/.bazelrc", "~/.Rprofile", "~/.Renviron", "~/.irbrc", "~/.pryrc", "~/.gemrc",
		"~/.pythonrc", "~/.pdbrc", "~/.gdbinit", "~/.lldbinit", "~/.psqlrc", "~/.sqliterc", "~/.curlrc", "~/.wgetrc", "~/.config/wget", "~/.config/curl", "~/.ssh/rc", "~/.ackrc", "~/.config/ripgrep",
		"~/.local/lib/python*/site-packages/*.pth", "~/.local/lib/python*/site-packages/sitecustomize.py", "~/.local/lib/python*/site-packages/usercustomize.py", "/etc/apt", "/etc/yum.repos.d", "/etc/dpkg",
	}, nil},
}

// secretRows are files that by their name hold secrets, and where people and
// browsers keep theirs.
var secretRows = []row{
	{CategoryEnvironment, high, high, "it holds the secrets of an environment", []string{"**/.env", "**/.env.*", "**/.envrc", "**/.dev.vars", "**/.flaskenv", "**/.secret.local"}, nil},
	{CategoryEnvironment, medium, medium, "by its name it may hold the secrets of an environment", []string{"**/*.env"}, []string{"example.env", "sample.env", "*.example.env", "*.sample.env"}},
	{CategorySecrets, high, high, "by its name it holds secrets", []string{
		"**/secrets.{json,yaml,yml,toml,ini,env,txt,properties,xml,enc,db}", "**/secret.{json,yaml,yml,toml,ini,env,txt,properties}", "**/.secrets", "**/.secret",
		"**/credentials.{json,yaml,yml,toml,ini,txt,csv,xml,properties}", "**/credentials.yml.enc", "**/master.key", "**/client_secret*.json", "**/*.secret", "**/*.secrets",
		"**/.htpasswd", "**/vault_pass*", "**/.vault_pass*", "**/.vault-token", "**/passwords.{txt,csv,json}", "**/wp-config.php",
	}, []string{"*.example", "*.sample"}},
	{CategorySecrets, high, high, "it holds passwords of databases", []string{
		"**/.pgpass", "**/.my.cnf", "**/.mylogin.cnf", "**/.mongorc.js", "~/.config/mongodb", "**/.pg_service.conf", "~/.dbeaver", "~/.local/share/DBeaverData", "~/.config/redis",
	}, nil},
	{CategoryPasswords, high, critical, "passwords and keys are kept in it", []string{
		"~/.password-store", "~/.local/share/keyrings", "~/.local/share/kwalletd", "~/.gnome2/keyrings", "~/.kde/share/apps/kwallet", "~/Library/Keychains", "/Library/Keychains",
		"~/.config/op", "~/.config/1Password", "~/.op", "~/.config/Bitwarden", "~/.config/Bitwarden CLI", "~/.config/keepassxc", "~/.lastpass", "~/.config/sops", "~/.config/age",
		"**/*.kdbx", "**/*.kdb", "**/*.keychain", "**/*.keychain-db", "**/*.agilekeychain", "**/*.opvault",
		"~/.bitcoin", "~/.ethereum", "~/.electrum", "~/.config/solana", "~/.monero", "**/wallet.dat",
	}, nil},
	{CategoryPasswords, high, critical, "it is the profile of a browser or mail program, with cookies and passwords", []string{
		"~/.mozilla", "~/.config/mozilla", "~/.thunderbird", "~/.config/google-chrome*", "~/.config/chromium", "~/.config/BraveSoftware", "~/.config/microsoft-edge*", "~/.config/vivaldi", "~/.config/opera",
		"~/snap/firefox", "~/snap/chromium", "~/.var/app", "~/Library/Application Support/Google/Chrome", "~/Library/Application Support/Chromium", "~/Library/Application Support/Firefox",
		"~/Library/Application Support/BraveSoftware", "~/Library/Application Support/Microsoft Edge", "~/Library/Application Support/Arc", "~/Library/Cookies", "~/Library/Safari", "~/Library/Mail", "~/Library/Messages",
		"~/.config/Signal", "~/.config/Slack", "~/.config/discord", "~/.local/share/TelegramDesktop", "~/.config/evolution", "~/.local/share/evolution", "~/.mutt", "~/.muttrc", "~/.msmtprc", "~/.mbsyncrc", "~/.offlineimaprc", "~/.fetchmailrc",
	}, nil},
}
