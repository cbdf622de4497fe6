package timeline

import (
	"cmp"
	"fmt"
	"strconv"
)

// A Rank is the place of a process among the processes of a distributed program.
type Rank struct {
	Number uint32
	Local  uint32 // among those of its host; Number where it is not known
	Of     uint32 // processes in all, 0 where it is not known
	Known  bool   // there are several processes, and the environment numbers them
}

// String is what people call the rank: "rank 3"; "" where it is not known.
func (r Rank) String() string {
	if !r.Known {
		return ""
	}
	return fmt.Sprintf("rank %d", r.Number)
}

// Compare orders ranks by number; what has none comes last.
func (r Rank) Compare(other Rank) int {
	switch {
	case r.Known && other.Known:
		return cmp.Compare(r.Number, other.Number)
	case r.Known:
		return -1
	case other.Known:
		return 1
	}
	return 0
}

// launchers are the variables by which launchers number the processes that they start: number,
// local number, how many. The innermost launcher comes first: torchrun runs under srun or mpirun.
var launchers = [][3]string{
	{"RANK", "LOCAL_RANK", "WORLD_SIZE"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"},
	{"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
	{"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE"},
	{"PALS_RANKID", "PALS_LOCAL_RANKID", "PMI_SIZE"},
	{"FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", ""},
	{"PMIX_RANK", "", ""},
	{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"},
	{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
}

// RankOf finds the rank of a process in its environment variables.
func RankOf(variables map[string]string) Rank {
	for _, l := range launchers {
		number, ok := rankNumber(variables[l[0]])
		if !ok {
			continue
		}
		r := Rank{Number: number, Local: number, Known: true}
		if local, ok := rankNumber(variables[l[1]]); ok {
			r.Local = local
		}
		if of, ok := rankNumber(variables[l[2]]); ok && of > number {
			r.Of = of
		}
		if r.Of == 1 || l[0] == "SLURM_PROCID" && r.Of == 0 { // a job's only process, or its script
			continue
		}
		return r
	}
	return Rank{}
}

func rankNumber(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return uint32(n), err == nil
}
