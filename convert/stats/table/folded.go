package table

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Folded are stacks with weights, in the form that flame graph tools read. The zero Folded has no stack.
type Folded struct {
	root  fold
	nodes int
}

// maxFolds bounds the distinct stacks. What would need more frames counts for the frames that there are.
const maxFolds = 1 << 20

// A fold is a frame with the frames that it called.
type fold struct {
	weight uint64 // without that of what it called
	inner  map[string]*fold
}

// Add adds the weight of a stack, whose outermost frame comes first.
func (f *Folded) Add(frames []string, weight uint64) {
	at := &f.root
	for _, name := range frames {
		next := at.inner[name]
		if next == nil {
			if f.nodes >= maxFolds {
				break
			}
			f.nodes++
			if at.inner == nil {
				at.inner = make(map[string]*fold)
			}
			next = new(fold)
			at.inner[name] = next
		}
		at = next
	}
	if at.weight += weight; at.weight < weight {
		at.weight = math.MaxUint64
	}
}

// Join adds the stacks of another one.
func (f *Folded) Join(o *Folded) { f.join(nil, &o.root) }

func (f *Folded) join(frames []string, at *fold) {
	if at.weight > 0 {
		f.Add(frames, at.weight)
	}
	for _, name := range slices.Sorted(maps.Keys(at.inner)) {
		f.join(append(frames, name), at.inner[name])
	}
}

// A Frame is a frame of a stack with all stacks that begin like it.
type Frame struct {
	Name   string
	Depth  int    // frames around it
	Before uint64 // weight of what stands before it at its depth
	Weight uint64 // with that of what it called
}

// Frames are the frames, each before those that it called, the heaviest first; and the weight of all. Frames of less
// than a part of all are left out.
func (f *Folded) Frames(least float64) (list []Frame, all uint64) {
	weights := make(map[*fold]uint64)
	all = f.root.sum(weights)
	return f.root.frames(nil, weights, Frame{Depth: -1, Weight: all}, uint64(least*float64(all))), all
}

func (f *fold) sum(weights map[*fold]uint64) uint64 {
	all := f.weight
	for _, inner := range f.inner {
		if all += inner.sum(weights); all < inner.weight {
			all = math.MaxUint64
		}
	}
	weights[f] = all
	return all
}

func (f *fold) frames(list []Frame, weights map[*fold]uint64, of Frame, least uint64) []Frame {
	names := slices.SortedFunc(maps.Keys(f.inner), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[f.inner[b]], weights[f.inner[a]]), cmp.Compare(a, b))
	})
	before := of.Before
	for _, name := range names {
		inner := f.inner[name]
		x := Frame{Name: name, Depth: of.Depth + 1, Before: before, Weight: weights[inner]}
		if before += x.Weight; x.Weight > least {
			list = inner.frames(append(list, x), weights, x, least)
		}
	}
	return list
}

// foldedText keeps what separates frames and lines out of a frame.
var foldedText = strings.NewReplacer(";", ",", "\n", " ", "\r", " ")

// Write writes a line for each stack, "main;step;linear 1500", in the order of the frames' names.
func (f *Folded) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	f.root.write(out, "")
	return out.Flush()
}

func (f *fold) write(out *bufio.Writer, stack string) {
	if f.weight > 0 && stack != "" {
		fmt.Fprintf(out, "%s %d\n", stack, f.weight) // Flush keeps the error
	}
	for _, name := range slices.Sorted(maps.Keys(f.inner)) {
		frame := foldedText.Replace(name)
		if stack != "" {
			frame = stack + ";" + frame
		}
		f.inner[name].write(out, frame)
	}
}
