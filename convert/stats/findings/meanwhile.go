package findings

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Remedy is what to try about what a thread did outside of calls; by is what blocked it.
func Remedy(d activity.OwnerKind, by timeline.Blocker) string { return remedies[kindOutside(d, by)] }

// A remedy is what to try about gaps in which the launching threads mostly did one thing.
var remedies = map[doingKind]string{
	outside:   "launch ahead: see what the CPU does %s, and move it to another thread or out of the loop",
	captures:  "capture and instantiate graphs before the loop; cudaGraphExecUpdate changes an instantiated graph",
	allocates: "allocate before the loop, or use cudaMallocAsync and cudaFreeAsync, which take memory from a pool",
	waits:     "launch what can run next before these waits, and wait for the stream or event whose result the CPU needs",
	launches: "look at the launching calls (report calls): one that takes long waits for a full queue, for a lock, or " +
		"for memory that it allocates",
	callsElse: "move these calls out of the loop, or to another thread",
	computes:  "launch ahead: make %s faster, or move it to another thread or out of the loop",
	blocked: "have ready what the thread waits for: read and prepare data ahead in other threads or processes " +
		"(PyTorch: num_workers, prefetch_factor)",
	sleeps: "the program sleeps there by itself: look at that line; where it waits for something, it could wait for " +
		"that in place of a time",
	locked: "look at who has the lock, and hold it for less time; where a thread waits for a queue that another one " +
		"fills, fill it ahead",
	ready: "give the program more processors: it has more threads that run than it may use (taskset, cgroup, Slurm's " +
		"--cpus-per-task), or others use them",
	queued: "look at what the queued work waits for: an event, another stream, another GPU (report idle)",
}

// mostOf names the largest part of what threads did that is known, "" for nothing.
func mostOf(did tally[doing]) string {
	for _, d := range largest(did, func(d doing) string { return d.name }) {
		if isKnown(d.kind) {
			return d.name
		}
	}
	return ""
}

// leastNamed is the least part of some time that a line or code has which a remedy names.
const leastNamed = 0.25

// tryFor returns the remedy of a kind, with the line or code that takes most of the time, or the line that launches
// next.
func tryFor(cause string, kind doingKind, did tally[doing], next tally[*timeline.PythonFrame]) string {
	try, all := remedies[kind], float64(total(did).cost)
	code, most := "", uint64(leastNamed*all)
	for _, d := range largest(did, func(d doing) string { return d.name }) {
		named := isKnown(d.kind) && d.kind >= computes && !strings.HasPrefix(d.name, "[") // not [vdso]
		if named && did[d].cost > most && (kind == outside || d.kind == kind) {
			code, most = d.name, did[d].cost
		}
	}
	switch kind {
	case computes:
		return fmt.Sprintf(try, cmp.Or(code, "this code"))
	case outside:
		if float64(kindsOf(did)[outside]) > all/2 {
			try = strings.Replace(try, "see", "record (--sample)", 1)
		}
		at := "at these times"
		for line, e := range next {
			if line != nil && e.cost > total(next).cost/2 {
				at = "before " + path.Base(line.Text())
			}
		}
		if code != "" {
			at = "at these times (most: " + code + ")"
		}
		return fmt.Sprintf(try, at)
	case sleeps, blocked, locked:
		if code != "" && code != cause {
			try += " (most: " + code + ")"
		}
	}
	return try
}

// titleOf returns what begins the title of a finding about an idle GPU: the cause, or where the launching threads were.
func titleOf(cause string, did tally[doing]) string {
	if cause == "" || strings.HasPrefix(cause, "[") { // [vdso] says less
		place, _ := placeOf(did)
		return place
	}
	return cause
}

// nearlyAll is the part of some time that counts as all of it: the rest may be what a look at a thread did not see.
const nearlyAll = 0.9

// partOf is the part of what threads did outside of calls that titleOf names: all of it, or more than half. What was
// seen by chance counts as far as it may belong to the cause.
func partOf(cause string, did tally[doing], idle *SteadyIdle) float64 {
	named, all := uint64(0), uint64(0)
	_, place := placeOf(did)
	for d, e := range did {
		if d.kind != outside && d.kind < computes {
			continue
		}
		all = sketch.Sum(all, e.cost)
		if d.name == cause || titleOf(cause, did) != cause && slices.Contains(place, d.kind) {
			named = sketch.Sum(named, e.cost)
		}
	}
	for i := 0; named > 0 && idle != nil && i < len(idle.Rows); i++ {
		if idle.Rows[i].What == cause {
			named = max(named, idle.Rows[i].High)
		}
	}
	if part := float64(named) / float64(max(all, 1)); named > 0 && part < nearlyAll {
		return part
	}
	return 1
}

// placeOf returns where the launching threads were for more than half of the time, and what they did there; "" if
// nowhere, and nothing where that is all that they did.
func placeOf(did tally[doing]) (place string, doings []doingKind) {
	kinds, all := kindsOf(did), total(did).cost
	onCPU := kinds[computes] + kinds[computesUnseen]
	isBlocked := kinds[blocked] + kinds[sleeps] + kinds[locked] + kinds[blockedUnseen]
	switch {
	case onCPU > all/2:
		return "on CPU outside of CUDA calls", []doingKind{computes, computesUnseen}
	case isBlocked > all/2:
		return "blocked outside of CUDA calls", append([]doingKind{blockedUnseen}, blocks...)
	case onCPU+isBlocked+kinds[ready]+kinds[outside] > all/2:
		return "outside of CUDA calls", nil
	}
	return "", nil
}

// kindsOf joins what threads did by kind.
func kindsOf(did tally[doing]) map[doingKind]uint64 {
	kinds := make(map[doingKind]uint64)
	for d, e := range did {
		kinds[d.kind] = sketch.Sum(kinds[d.kind], e.cost)
	}
	return kinds
}

// causedBy is a title with the cause in front.
func causedBy(cause, effect string) string {
	if cause == "" {
		return effect
	}
	return cause + ": " + effect
}

// blocks are the kinds of threads that were blocked by a known thing.
var blocks = []doingKind{blocked, sleeps, locked}

// meanwhile returns what threads did, by kind. Time outside of calls counts as its dominant kind if 90 % of it is
// attributed. All that blocked threads counts together, under the name of its longest part.
func meanwhile(of tally[doing]) map[doingKind]uint64 {
	pool(of, computesUnseen, computes)
	pool(of, blockedUnseen, blocks...)
	kinds := kindsOf(of)
	unknown := kinds[outside] + kinds[computesUnseen] + kinds[blockedUnseen]
	longest, ofBlocks := blocked, uint64(0)
	for _, kind := range blocks {
		ofBlocks += kinds[kind]
		if kinds[kind] > kinds[longest] {
			longest = kind
		}
	}
	all, most := unknown+kinds[computes]+ofBlocks+kinds[ready], outside
	for kind, ns := range map[doingKind]uint64{computes: kinds[computes], longest: ofBlocks, ready: kinds[ready]} {
		if unknown <= all/10 && ns > all/2 {
			most = kind
		}
	}
	for _, kind := range append([]doingKind{outside, computes, computesUnseen, blockedUnseen, ready}, blocks...) {
		delete(kinds, kind)
	}
	kinds[most] = all
	return kinds
}
