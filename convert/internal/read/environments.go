package read

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An environment is the recorded variables of processes. Processes with equal ones share it.
type environment struct {
	variables map[string]string
	rank      timeline.Rank
	run       string
}

// variableBytes is about what a variable takes beside its text.
const variableBytes = 64

// environment returns the environment with a text.
func (l *Processes) environment(text string) *environment {
	e := l.environments[text]
	if e == nil {
		e = &environment{variables: SplitVariables(text)}
		e.rank, e.run = ranks.Of(e.variables), ranks.Run(e.variables)
		l.environments[text] = e
		l.texts += len(text) + variableBytes*len(e.variables)
	}
	return e
}

// SplitVariables returns environment variables, which a log holds as NAME=VALUE with a zero byte
// between them; nil without any.
func SplitVariables(environment string) map[string]string {
	if environment == "" {
		return nil
	}
	variables := make(map[string]string)
	for _, v := range SplitArgs(environment) {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	return variables
}

// circumstances returns those that a record states.
func (l *Processes) circumstances(r *tracelog.Process) timeline.Circumstances {
	e := l.environment(r.Environment)
	return timeline.Circumstances{Folder: r.Cwd, Runtime: r.Cudart, CUDA: cudaVersion(r.Cudart), NCCL: r.NCCL,
		Variables: e.variables, Rank: e.rank}
}

// cudaVersion is the version of a library whose name ends in a major and a minor part, 0 for any other text.
func cudaVersion(text string) timeline.CUDAVersion {
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return 0
	}
	major, err := strconv.ParseUint(parts[0], 10, 16)
	minor, err2 := strconv.ParseUint(parts[1], 10, 16)
	if err != nil || err2 != nil {
		return 0
	}
	return timeline.CUDAVersion(major*1000 + minor*10)
}

// rank is the rank of a process's first program.
func (l *Processes) rank(p *ProcessRecords) timeline.Rank {
	if len(p.records) == 0 {
		return timeline.Rank{}
	}
	return l.environment(p.records[0].Environment).rank
}

// Place is the rank of a process, also of a job's only one: 0 of 1.
func (l *Processes) Place(pid uint32) timeline.Rank {
	p := l.byPID[pid]
	if len(p.records) == 0 {
		return timeline.Rank{}
	}
	return ranks.Place(l.environment(p.records[0].Environment).variables)
}

// LowestRank is the lowest rank of a process.
func (l *Processes) LowestRank() (lowest timeline.Rank) {
	for _, p := range l.byPID {
		if r := l.rank(p); r.Compare(lowest) < 0 {
			lowest = r
		}
	}
	return lowest
}

// byRank returns the PIDs, those with a rank first, in the order of their ranks.
func (l *Processes) byRank() []uint32 {
	byPID := make(map[uint32]timeline.Rank, len(l.PIDs))
	for _, pid := range l.PIDs {
		byPID[pid] = l.rank(l.byPID[pid])
	}
	return slices.SortedStableFunc(slices.Values(l.PIDs), func(a, b uint32) int { return byPID[a].Compare(byPID[b]) })
}

// Run is the identity of the run of all processes; "" if they have several, or one of them none.
func (l *Processes) Run() (run string) {
	for i, pid := range l.PIDs {
		records := l.byPID[pid].records
		if len(records) == 0 {
			return ""
		}
		its := l.environment(records[0].Environment).run
		if i > 0 && its != run {
			return ""
		}
		run = its
	}
	return run
}
