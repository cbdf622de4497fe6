package findings

import (
	"fmt"
	"path"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A TorchFailure is a request for which PyTorch's allocator found no memory.
type TorchFailure struct {
	Process             *timeline.Process
	GPU                 uint32
	At                  uint64
	Bytes               uint64 // that were asked for
	Line                string // that asked
	Allocated, Reserved uint64 // bytes that the program held of the allocator, and the allocator of the GPU
	Holders             []TorchHolder
	Start               uint64 // of the recording, from which people count
}

// A TorchHolder is a Python line with the memory that it asked for and the program still held, of the largest first.
type TorchHolder struct {
	Line   string
	Bytes  uint64
	Blocks uint64
	Since  uint64 // when its oldest block was handed out
	Step   string // "step 3", in which that was; "" for none
}

// mostShown bounds the holders of a failure that a finding names.
const mostShown = 3

// Text says what was asked for, and what the cache was like.
func (f *TorchFailure) Text() string {
	return fmt.Sprintf("%s asked for at %s with %s held by the program and %s free in PyTorch's cache",
		figures.Bytes(f.Bytes), f.Line, figures.Bytes(f.Allocated), figures.Bytes(f.free()))
}

func (f *TorchFailure) free() uint64 { return f.Reserved - min(f.Allocated, f.Reserved) }

// Room says what would have made room for the request, as far as the holders tell.
func (f *TorchFailure) Room() string {
	var words []string
	if f.free() >= f.Bytes {
		words = append(words, fmt.Sprintf("the cache's %s are in pieces that are too small: "+
			"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids most of these", figures.Bytes(f.free())))
	}
	if len(f.Holders) > 0 && f.Holders[0].Bytes >= f.Bytes {
		words = append(words, f.held(&f.Holders[0])+" would have made room")
	} else if len(f.Holders) > 0 {
		words = append(words, "no line holds as much as was asked for: "+f.held(&f.Holders[0])+" is the most")
	}
	return strings.Join(words, "; ")
}

// held says what a line holds, and since when: "3.1 GiB (12 blocks) held since step 1 (0.8 s) at train.py:88 main".
func (f *TorchFailure) held(h *TorchHolder) string {
	since := figures.Duration(h.Since - min(h.Since, f.Start))
	if h.Step != "" {
		since = h.Step + " (" + since + ")"
	}
	return fmt.Sprintf("%s (%s) held since %s at %s", figures.Bytes(h.Bytes), figures.Count(h.Blocks, "block", "blocks"),
		since, h.Line)
}

func (r *report) torchMemory() {
	if r.collector.TorchFailures == nil {
		return
	}
	of, count := r.collector.TorchFailures(r.process.Process)
	if len(of) == 0 {
		return
	}
	e := new(evidence)
	for i := range of {
		e.add(of[i].At, 0)
	}
	e.count = max(e.count, count)
	first := &of[0]
	var holders []string
	for i := range first.Holders[:min(len(first.Holders), mostShown)] {
		holders = append(holders, first.held(&first.Holders[i]))
	}
	gpu := first.GPU
	r.add("pytorch_out_of_memory", e, Finding{
		Title: fmt.Sprintf("PyTorch had no memory for %s at %s", figures.Bytes(first.Bytes), path.Base(first.Line)),
		GPU:   &gpu, Evidence: first.Text() + "; held: " + strings.Join(holders, ", "), Try: first.Room()})
}
