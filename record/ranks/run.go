package ranks

import (
	"cmp"
	"path/filepath"
	"regexp"
)

// Job is the job ID that a scheduler has set: Slurm, PBS, LSF or Flux; "" without one.
func Job(variables map[string]string) string {
	return cmp.Or(variables["SLURM_JOB_ID"], variables["PBS_JOBID"], variables["LSB_JOBID"], variables["FLUX_JOB_ID"])
}

// Run is what tells the processes of one run from those of another: torchrun's run ID, or the job; "" if
// the environment has neither.
func Run(variables map[string]string) string {
	if id := variables["TORCHELASTIC_RUN_ID"]; id != "none" { // none: torchrun was given no ID
		return cmp.Or(id, Job(variables))
	}
	return Job(variables)
}

// Program is what tells the processes of one distributed program from those of others: its run; that of Open MPI and
// Slurm (PMIx); or where torch.distributed meets. "" if the environment has none of these.
func Program(variables map[string]string) string {
	if run := cmp.Or(Run(variables), variables["PMIX_NAMESPACE"]); run != "" || !Of(variables).Known {
		return run
	}
	if address := variables["MASTER_ADDR"]; address != "" {
		return address + "-" + variables["MASTER_PORT"]
	}
	return ""
}

var (
	launcherNames = regexp.MustCompile(`^(torchrun|torchx|accelerate|deepspeed|mpirun|mpiexec(\.[a-z]+)?|orterun|prterun|prun|srun|jsrun|aprun|flux|horovodrun|ray)$`)
	// and their scripts
	shellNames = regexp.MustCompile(`(^|\.)(ba|da|z|k|c|tc|fi)?sh$`)
	// Python modules
	launcherUnits = regexp.MustCompile(`^(torch\.distributed\.(run|launch|launcher(\..*)?)|accelerate\.commands\..*|deepspeed\.launcher\..*)$`)
	scriptNames   = regexp.MustCompile(`\.(py|sh|bash|pl|rb|js|mjs|jl|lua|R|r)$`)
)

// IsScript reports whether an argument names a script.
func IsScript(argument string) bool { return scriptNames.MatchString(argument) && argument[0] != '-' }

// Launches reports whether a command line starts a launcher, which numbers the processes that it starts: then
// a rank in the environment is not theirs.
func Launches(program string, args []string) bool {
	if launcherNames.MatchString(filepath.Base(program)) {
		return true
	}
	for i, arg := range args {
		switch {
		case IsScript(arg):
			return false
		case i > 0 && args[i-1] == "-m":
			return launcherUnits.MatchString(arg)
		case launcherNames.MatchString(filepath.Base(arg)): // behind numactl, env, uv run, ...
			return true
		}
	}
	return false
}

// MayLaunch reports whether a command line starts a launcher, or a shell script, which may start one.
func MayLaunch(program string, args []string) bool {
	return shellNames.MatchString(filepath.Base(program)) || Launches(program, args)
}
