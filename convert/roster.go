package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// An Identity says of which run of a program a log is, of which ranks and of which time.
type Identity struct {
	Name       string   // of the log
	Run        string   // "" if not known
	Ranks      []uint32 // in order
	World      uint32   // number of ranks of the program, 0 if not known
	Chosen     bool     // some ranks were left out on purpose
	Begin, End uint64   // on one clock, ns
	Aligned    bool     // Begin and End are known
	Error      uint64   // largest error of that clock for this log
}

const (
	mostRosterLines = 3    // of one kind
	earlyShare      = 0.05 // of the time of a run, by which a log ends before the others
	leastGap        = 10e6 // ns by which it does at least
)

// RosterLines says what a person should know of logs that are looked at together.
func RosterLines(logs []Identity) (lines []string) {
	logs = slices.DeleteFunc(slices.Clone(logs), func(l Identity) bool { return len(l.Ranks) == 0 })
	if len(logs) < 2 {
		return nil
	}
	run, own := largestRun(logs)
	var others []string
	for _, l := range logs {
		if !mayBeOf(l, run) {
			others = append(others, fmt.Sprintf("%s is of another run, %s: the others are of %s", l.Name, l.Run, run))
		}
	}
	lines = append(lines, firstLines(others, "log is", "logs are", " of other runs")...)
	lines = append(lines, firstLines(ranksTwice(own), "rank is", "ranks are", " in several logs")...)
	if gone := missingRanks(own); gone != "" {
		lines = append(lines, gone)
	}
	return append(lines, firstLines(endEarly(own), "log ends", "logs end", " early, too")...)
}

// firstLines keeps the first lines and counts the others.
func firstLines(lines []string, one, many, what string) []string {
	if more := len(lines) - mostRosterLines; more > 0 {
		return append(slices.Clip(lines[:mostRosterLines]), figures.Count(more, "more "+one, "more "+many)+what)
	}
	return lines
}

// mayBeOf reports whether a log may be of a run.
func mayBeOf(l Identity, run string) bool { return l.Run == "" || run == "" || l.Run == run }

// largestRun finds the run with most ranks, the first one of equal ones, and its logs.
func largestRun(logs []Identity) (run string, own []Identity) {
	counts, most := make(map[string]int), 0
	for _, l := range logs {
		if l.Run != "" {
			counts[l.Run] += len(l.Ranks)
		}
	}
	for _, l := range logs {
		if n := counts[l.Run]; n > most {
			run, most = l.Run, n
		}
	}
	for _, l := range logs {
		if mayBeOf(l, run) {
			own = append(own, l)
		}
	}
	return run, own
}

// ranksTwice finds ranks that several logs have.
func ranksTwice(logs []Identity) (lines []string) {
	in := make(map[uint32][]string)
	for _, l := range logs {
		for _, r := range l.Ranks {
			in[r] = append(in[r], l.Name)
		}
	}
	var numbers []uint32
	for r, names := range in {
		if len(names) > 1 {
			numbers = append(numbers, r)
		}
	}
	slices.Sort(numbers)
	for _, r := range numbers {
		lines = append(lines, fmt.Sprintf("rank %d is in several logs, %s: are they of one run?", r,
			strings.Join(in[r], " and ")))
	}
	return lines
}

// maxWorld bounds the number of ranks of which the missing ones are listed.
const maxWorld = 1 << 20

// missingRanks names the ranks that no log has.
func missingRanks(logs []Identity) string {
	world, has := uint32(0), make(map[uint32]bool)
	for _, l := range logs {
		if l.Chosen {
			return ""
		}
		world = max(world, l.World)
		for _, r := range l.Ranks {
			has[r] = true
		}
	}
	if world > maxWorld {
		return ""
	}
	var gone []uint32
	for r := range world {
		if !has[r] {
			gone = append(gone, r)
		}
	}
	switch len(gone) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("rank %d of %d is not among the logs", gone[0], world)
	}
	return fmt.Sprintf("ranks %s of %d are not among the logs", ranks.Words(gone), world)
}

// endEarly finds the logs that end before most others do.
func endEarly(logs []Identity) (lines []string) {
	if len(logs) < 2 {
		return nil
	}
	ends := slices.SortedFunc(slices.Values(logs), func(a, b Identity) int { return cmp.Compare(a.End, b.End) })
	last := ends[len(ends)/2]
	for _, l := range logs {
		gap := last.End - min(l.End, last.End)
		least := max(uint64(earlyShare*float64(last.End-min(last.Begin, last.End))), leastGap)
		if !l.Aligned || !last.Aligned || gap <= least+l.Error+last.Error {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s ends %s before the others: %s", l.Name, figures.Duration(gap),
			ranks.Named(l.Ranks)))
	}
	return lines
}
