// Package ranks knows the place of a process in a distributed program: its rank, its run, its job.
// Input: environment variables, as launchers and schedulers set them, and lists of ranks, as people write
// them. Output: numbers and names.
package ranks

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A Rank is the place of a process among the processes of a distributed program.
type Rank struct {
	Number uint32
	Local  uint32 // among those of its host; Number where it is not known
	Of     uint32 // processes in all, 0 where it is not known
	Known  bool   // there are several processes, and the environment numbers them
}

// Nullable is the number, nil where it is not known.
func (r Rank) Nullable() *uint32 {
	if !r.Known {
		return nil
	}
	return &r.Number
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

// launchers are the variables by which launchers number the processes that they start. The innermost
// launcher comes first: torchrun runs under srun or mpirun.
var launchers = []struct{ number, local, of, needs string }{
	{number: "RANK", local: "LOCAL_RANK", of: "WORLD_SIZE"},
	{number: "OMPI_COMM_WORLD_RANK", local: "OMPI_COMM_WORLD_LOCAL_RANK", of: "OMPI_COMM_WORLD_SIZE"},
	{number: "MV2_COMM_WORLD_RANK", local: "MV2_COMM_WORLD_LOCAL_RANK", of: "MV2_COMM_WORLD_SIZE"},
	{number: "PMI_RANK", local: "MPI_LOCALRANKID", of: "PMI_SIZE"},
	{number: "JSM_NAMESPACE_RANK", local: "JSM_NAMESPACE_LOCAL_RANK", of: "JSM_NAMESPACE_SIZE"},
	{number: "PALS_RANKID", local: "PALS_LOCAL_RANKID", of: "PMI_SIZE"},
	{number: "FLUX_TASK_RANK", local: "FLUX_TASK_LOCAL_ID"},
	{number: "PMIX_RANK"},
	// A batch script, too, has SLURM_PROCID=0 and SLURM_NTASKS, but no step.
	{number: "SLURM_PROCID", local: "SLURM_LOCALID", of: "SLURM_STEP_NUM_TASKS", needs: "SLURM_STEP_NUM_TASKS"},
	{number: "SLURM_PROCID", local: "SLURM_LOCALID", of: "SLURM_NTASKS", needs: "SLURM_STEP_ID"},
}

// Of finds the rank of a process in its environment variables.
func Of(variables map[string]string) Rank {
	for _, l := range launchers {
		number, ok := parseNumber(variables[l.number])
		if !ok || l.needs != "" && variables[l.needs] == "" {
			continue
		}
		r := Rank{Number: number, Local: number, Known: true}
		if local, ok := parseNumber(variables[l.local]); ok {
			r.Local = local
		}
		if of, ok := parseNumber(variables[l.of]); ok && of > number {
			r.Of = of
		}
		if r.Of != 1 { // a job's only process has no rank
			return r
		}
	}
	return Rank{}
}

// Place is the rank of a process, also of one that is alone: 0 of 1.
func Place(variables map[string]string) Rank {
	if r := Of(variables); r.Known {
		return r
	}
	for _, l := range launchers {
		if variables[l.number] == "0" && variables[l.of] == "1" {
			return Rank{Of: 1, Known: true}
		}
	}
	return Rank{}
}

// Variables returns an environment as a map.
func Variables(environ []string) map[string]string {
	variables := make(map[string]string, len(environ))
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	return variables
}

// parseNumber reads the number of a rank.
func parseNumber(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return uint32(n), err == nil
}
