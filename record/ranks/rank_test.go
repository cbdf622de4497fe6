package ranks

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for environment, want := range map[string]Rank{
		"":                                   {},
		"RANK=3 LOCAL_RANK=1 WORLD_SIZE=8":   {3, 1, 8, true},
		"RANK=0 WORLD_SIZE=1":                {},
		"RANK=0":                             {0, 0, 0, true},
		"RANK=8 WORLD_SIZE=8":                {8, 8, 0, true}, // they contradict each other
		"RANK=-1 LOCAL_RANK=0 WORLD_SIZE=-1": {},              // torchrun's own values before it numbers processes
		"RANK=x PMI_RANK=2 PMI_SIZE=4":       {2, 2, 4, true},
		"OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_SIZE=6":       {5, 1, 6, true},
		"SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1":                                    {}, // a batch script
		"SLURM_PROCID=0 SLURM_LOCALID=0":                                                   {},
		"SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=16":                                   {}, // a batch script of several tasks
		"SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_LOCALID=1 SLURM_NTASKS=16":                   {9, 1, 16, true},
		"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=16":                            {1, 1, 2, true},
		"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 RANK=11 LOCAL_RANK=3 WORLD_SIZE=16": {11, 3, 16, true}, // torchrun under srun
		"PMIX_RANK=4": {4, 4, 0, true},
	} {
		if got := Of(Variables(strings.Fields(environment))); got != want {
			t.Errorf("%q: %+v, want %+v", environment, got, want)
		}
	}
}

func TestRanks(t *testing.T) {
	t.Parallel()
	two, ten, none := Rank{Number: 2, Known: true}, Rank{Number: 10, Known: true}, Rank{}
	for _, test := range []struct {
		a, b Rank
		want int
	}{{two, ten, -1}, {ten, two, 1}, {two, two, 0}, {ten, none, -1}, {none, two, 1}, {none, none, 0}} {
		if got := test.a.Compare(test.b); got != test.want {
			t.Errorf("%q and %q: %d", test.a, test.b, got)
		}
	}
	if ten.String() != "rank 10" || none.String() != "" {
		t.Errorf("%q, %q", ten, none)
	}
}
