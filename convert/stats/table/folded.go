package table

import (
	"bufio"
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
