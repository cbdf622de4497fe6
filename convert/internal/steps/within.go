package steps

import (
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// mostOrigins bounds the origins of a stream that are told apart.
const mostOrigins = 1 << 12

// An origin is a line of Python, with those that called it, and what it launched.
type origin struct {
	python *timeline.Python
	shape  *timeline.Shape
}

// Origins are what a stream's work came from: within the periods, and outside of them. What came since the last bound
// waits for the next one.
type origins struct{ in, since, out map[origin]bool }

func (o *origins) add(to *map[origin]bool, x origin) {
	if x.python == nil || o.in[x] || len(*to) >= mostOrigins {
		return
	}
	if *to == nil {
		*to = make(map[origin]bool)
	}
	(*to)[x] = true
}

// bound notes that what came since the last bound lies in a period; that before the first bound does not.
func (o *origins) bound(first bool) {
	to := &o.in
	if first {
		to = &o.out
	}
	for x := range o.since {
		o.add(to, x)
	}
	clear(o.since)
}

// within returns the function or the line of Python that ran once and has all periods in it, where this is no loop of
// the program's own: a function of a package or a forward pass, which launched other work from other lines, or a line
// that launched other work. It returns nil for any other function, and where the lines do not tell.
func (o *origins) within() *timeline.PythonFrame {
	var chains [][]*timeline.Python
	shapes := make(map[*timeline.Shape]bool)
	for x := range o.in {
		chains, shapes[x.shape] = append(chains, chain(x.python)), true
	}
	if len(chains) == 0 {
		return nil
	}
	common := chains[0]
	for _, c := range chains[1:] {
		n := 0
		for n < min(len(c), len(common)) && c[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	lines := make(map[*timeline.Python]bool) // of the innermost function that all have
	same := !slices.ContainsFunc(chains, func(c []*timeline.Python) bool {
		return len(c) == len(common) || len(chains[0]) == len(common) || !sameFunction(c[len(common)], chains[0][len(common)])
	})
	if same {
		n := len(common)
		for _, c := range chains {
			if lines[c[n]] = true; len(common) == n || c[n].Line < common[n].Line {
				common = c[:n+1]
			}
		}
	}
	one := !slices.ContainsFunc(chains, func(c []*timeline.Python) bool { return len(c) > len(common) }) && !same
	out := [](map[origin]bool){o.out, o.since}
	for d := len(common) - 1; d >= 0; d-- {
		for _, others := range out {
			for x := range others {
				c := chain(x.python)
				switch {
				case one && d == len(common)-1 && x.python == common[d] && !shapes[x.shape]:
					return common[d].PythonFrame
				case len(c) <= d || d > 0 && c[d-1] != common[d-1] || !sameFunction(c[d], common[d]) || c[d] == common[d] ||
					lines[c[d]]:
				case common[d].IsOwn() && !forward(common[d].Function):
					return nil
				default:
					return common[d].PythonFrame
				}
			}
		}
	}
	return nil
}

// chain is a frame with those that called it, the outermost first.
func chain(p *timeline.Python) []*timeline.Python {
	list := slices.Collect(p.Frames())
	slices.Reverse(list)
	return list
}

func sameFunction(a, b *timeline.Python) bool {
	return a.File == b.File && a.Function == b.Function && a.First == b.First
}

// forward reports whether a function is the forward pass of a module.
func forward(name string) bool { return name[strings.LastIndexByte(name, '.')+1:] == "forward" }

// mostSums bounds the sums of a stream's history: where they are more, every second one goes.
const mostSums = 1 << 11

// A history has how much time a stream's work took up to some of its pieces.
type history struct {
	sums  []sum
	every int // pieces between two sums
	n     int
	total uint64 // ns
}

type sum struct{ start, before uint64 }

func (h *history) add(start, ns uint64) {
	if h.every == 0 {
		h.every = 1
	}
	if h.n%h.every == 0 {
		if len(h.sums) == mostSums {
			for i := range mostSums / 2 {
				h.sums[i] = h.sums[2*i]
			}
			h.sums, h.every = h.sums[:mostSums/2], 2*h.every
		}
		if h.n%h.every == 0 {
			h.sums = append(h.sums, sum{start, h.total})
		}
	}
	h.n++
	h.total += min(ns, timeline.Never-h.total)
}

// until is the time of the work that began before a time, within that of as many pieces as lie between two sums.
func (h *history) until(at uint64) uint64 {
	i, _ := slices.BinarySearchFunc(h.sums, at, func(s sum, at uint64) int {
		if s.start < at {
			return -1
		}
		return 1
	})
	if i == len(h.sums) {
		return h.total
	}
	return h.sums[i].before
}
