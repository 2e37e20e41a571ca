package command

// wrappers are the programs that run the command in their arguments and are
// taken off, by name, with how they read the words before it. The manuals of
// coreutils 9.1, util-linux 2.38, procps 4.0, findutils 4.9, sudo 1.9, doas 6.8
// and bash 5.2 say so.
var wrappers = map[string]lineGrammar{
	"builtin": {},
	"command": {flags: "pvV", query: "v V"},
	"exec":    {flags: "cl", args: "a"},
	"time": {flags: "apqvV", args: "fo", query: "V version help",
		long: "append portability quiet verbose version help format= output="},
	"env": {flags: "i0v", args: "uCSa", dash: true, assigns: true, query: "help version",
		long: "ignore-environment null debug unset= chdir= split-string= argv0= block-signal? default-signal? ignore-signal? list-signal-handling help version"},
	"nohup":  {long: "help version", query: "help version"},
	"setsid": {flags: "cfwhV", long: "ctty fork wait help version", query: "h V help version"},
	"stdbuf": {args: "ioe", long: "input= output= error= help version", query: "help version"},
	"nice":   {args: "n", numbers: true, long: "adjustment= help version", query: "help version"},
	"ionice": {flags: "thV", args: "cnpPu", long: "ignore class= classdata= pid= pgid= uid= help version", query: "p P u pid pgid uid h V help version"},
	"chrt": {flags: "abfiordRvmhVp", args: "TPD", operands: 1,
		long:  "all-tasks batch fifo idle other rr deadline reset-on-fork verbose max help version sched-runtime= sched-period= sched-deadline= pid",
		query: "p m h V pid max help version"},
	"timeout": {flags: "vfp", args: "ks", operands: 1, long: "preserve-status foreground verbose kill-after= signal= help version", query: "help version"},
	"taskset": {flags: "apchV", operands: 1, long: "all-tasks pid cpu-list help version", query: "p pid h V help version"},
	"numactl": {args: "NmiCpP", flags: "alHsh", query: "H s h hardware show help",
		long: "all cpunodebind= membind= interleave= physcpubind= preferred= preferred-many= localalloc balancing hardware show help"},
	"sudo": {flags: "AbBEHknNPSKVvlise", args: "CDghpRrTtUu", assigns: true, bare: bareShell,
		long:    "askpass background bell close-from= chdir= preserve-env? group= set-home host= login list non-interactive preserve-groups prompt= chroot= role= stdin shell type= command-timeout= other-user= user= version validate edit remove-timestamp reset-timestamp help",
		query:   "K V v l version validate list remove-timestamp help",
		unclear: "i s e login shell edit h host"},
	"doas":   {flags: "nsL", args: "uCa", bare: bareShell, query: "L C", unclear: "s"},
	"chroot": {operands: 1, bare: bareShell, long: "groups= userspec= skip-chdir help version", query: "help version"},
	"unshare": {flags: "fmuinpUCTrchV", args: "RwSG", bare: bareShell, query: "h V help version",
		long: "mount? uts? ipc? net? pid? user? cgroup? time? fork map-root-user map-current-user map-auto map-user= map-group= map-users= map-groups= kill-child? mount-proc? propagation= setgroups= keep-caps root= wd= setuid= setgid= monotonic= boottime= help version"},
	"nsenter": {flags: "aFZehV", attached: "muinpCUTrw", args: "tSGW", bare: bareShell, query: "h V help version",
		long: "all target= mount? uts? ipc? net? pid? cgroup? user? time? setuid= setgid= preserve-credentials root? wd? wdns= no-fork env follow-context help version"},
	"setpriv": {flags: "dhV", query: "d h V dump help version",
		long: "dump nnp no-new-privs clear-groups keep-groups init-groups groups= inh-caps= ambient-caps= bounding-set= ruid= euid= rgid= egid= reuid= regid= securebits= pdeathsig= selinux-label= apparmor-profile= reset-env list-caps help version"},
}

// chdirs are the options of wrappers that set the directory of the command.
var chdirs = map[string][]string{
	"env":  {"C", "chdir"},
	"sudo": {"D", "chdir"},
}

// roots are the wrappers and options behind which paths mean other files.
var roots = map[string][]string{
	"sudo":    {"R", "chroot"},
	"unshare": {"R", "root", "w", "wd", "m", "mount"},
}
