package catalog

import (
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An environment is the recorded variables of processes. Processes with equal ones share it.
type environment struct {
	variables map[string]string
	rank      timeline.Rank
}

// variableBytes is about what a variable takes beside its text.
const variableBytes = 64

// environment returns the environment with a text.
func (l *Processes) environment(text string) *environment {
	e := l.environments[text]
	if e == nil {
		e = &environment{variables: SplitVariables(text)}
		e.rank = timeline.RankOf(e.variables)
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
	return timeline.Circumstances{Folder: r.Cwd, Runtime: r.Cudart, NCCL: r.NCCL, Variables: e.variables, Rank: e.rank}
}

// rank is the rank of a process's first program.
func (l *Processes) rank(p *Process) timeline.Rank {
	if len(p.records) == 0 {
		return timeline.Rank{}
	}
	return l.environment(p.records[0].Environment).rank
}

// Rank is the rank of a process.
func (l *Processes) Rank(pid uint32) timeline.Rank { return l.rank(l.byPID[pid]) }

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
	ranks := make(map[uint32]timeline.Rank, len(l.PIDs))
	for _, pid := range l.PIDs {
		ranks[pid] = l.rank(l.byPID[pid])
	}
	return slices.SortedStableFunc(slices.Values(l.PIDs), func(a, b uint32) int { return ranks[a].Compare(ranks[b]) })
}
