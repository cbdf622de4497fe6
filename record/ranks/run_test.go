package ranks

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]struct{ run, job string }{
		"":                         {"", ""},
		"SLURM_JOB_ID=7":           {"7", "7"},
		"TORCHELASTIC_RUN_ID=none": {"", ""},
		"TORCHELASTIC_RUN_ID=none SLURM_JOB_ID=7": {"7", "7"},
		"TORCHELASTIC_RUN_ID=a-b SLURM_JOB_ID=7":  {"a-b", "7"},
		"PBS_JOBID=12.server":                     {"12.server", "12.server"},
		"LSB_JOBID=5":                             {"5", "5"},
		"FLUX_JOB_ID=f1":                          {"f1", "f1"},
	} {
		v := Variables(strings.Fields(environment))
		if run, job := Run(v), Job(v); run != want.run || job != want.job {
			t.Errorf("%q: run %q, job %q", environment, run, job)
		}
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]string{
		"": "",
		"SLURM_JOB_ID=7 PMIX_NAMESPACE=slurm.pmix.7.0":                             "7",
		"PMIX_NAMESPACE=1835663361 PMIX_RANK=0 OMPI_COMM_WORLD_SIZE=2":             "1835663361",
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=node1 MASTER_PORT=29500":                  "node1-29500",
		"RANK=0 WORLD_SIZE=1 MASTER_ADDR=node1 MASTER_PORT=29500":                  "",
		"MASTER_ADDR=node1 MASTER_PORT=29500":                                      "",
		"RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none MASTER_ADDR=n MASTER_PORT=1": "n-1",
		"RANK=1 WORLD_SIZE=2": "",
	} {
		if got := Program(Variables(strings.Fields(environment))); got != want {
			t.Errorf("%q: %q, want %q", environment, got, want)
		}
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]Rank{
		"":                            {},
		"RANK=0 WORLD_SIZE=1":         {Of: 1, Known: true},
		"RANK=1 WORLD_SIZE=2":         {Number: 1, Local: 1, Of: 2, Known: true},
		"SLURM_PROCID=0":              {},
		"PMI_RANK=0 PMI_SIZE=1":       {Of: 1, Known: true},
		"PMI_RANK=0 PMI_SIZE=1 RANK=": {Of: 1, Known: true},
		"RANK=0 WORLD_SIZE=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1": {Number: 1, Local: 1, Of: 2, Known: true},
	} {
		if got := Place(Variables(strings.Fields(environment))); got != want {
			t.Errorf("%q: %+v, want %+v", environment, got, want)
		}
	}
}

func TestLaunches(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"./app":                                      false,
		"./app torchrun":                             true, // it may well start it
		"torchrun --nproc-per-node 8 t.py":           true,
		"/usr/bin/mpirun -n 4 ./app":                 true,
		"mpiexec.hydra -n 4 ./app":                   true,
		"srun ./app":                                 true,
		"python3 train.py":                           false,
		"python3 train.py torchrun":                  false,
		"python3 -m torch.distributed.run":           true,
		"python3 -m torch.utils.bottleneck":          false,
		"python3 -m pkg.train mpirun":                false,
		"numactl -N 0 torchrun t.py":                 true,
		"uv run torchrun t.py":                       true,
		"env A=1 python3 t.py":                       false,
		"accelerate launch t.py":                     true,
		"python3 -m accelerate.commands.launch t.py": true,
	} {
		words := strings.Fields(line)
		if got := Launches(words[0], words[1:]); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
}
