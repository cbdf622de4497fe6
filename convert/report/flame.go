package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Sizes of the flame graph.
const (
	frameHeight  = 17
	mostFrames   = 1_500
	deepestFrame = 48
	leastFrame   = 0.001 // part of all GPU time
)

// flame draws the GPU time by Python stack: each line below those that called it, as wide as the time of what it and
// what it called launched.
func (r *Report) flame() *Chart {
	note := "GPU time of what each line, and what it called, launched: the outermost line on top. " +
		"Lines of packages and of Python itself are grey."
	return r.flameOf(r.Stacks, "GPU time by Python stack", note, func(f string) (text string, strong bool) {
		return f[strings.LastIndexByte(f, '/')+1:], (&timeline.PythonFrame{File: f}).IsOwn()
	})
}

// operators draws the GPU time by module, operator of PyTorch and kernel.
func (r *Report) operators() *Chart {
	note := "GPU time of each module and each operator of PyTorch, within those that called it, down to kernels. The " +
		"backward pass is in the modules whose operators made it. Modules are grey."
	return r.flameOf(r.Operators, "GPU time by operator", note, func(f string) (text string, strong bool) {
		return cmp.Or(r.shortNames().Known(f), f), !strings.HasSuffix(f, ".forward") && f != "backward"
	})
}

// flameOf draws stacks, whose frames have a shorter text, and are grey or not.
func (r *Report) flameOf(of *table.Folded, title, note string, frame func(string) (text string, strong bool)) *Chart {
	if of == nil {
		return nil
	}
	least := leastFrame
	list, all := of.Frames(least)
	for ; len(list) > mostFrames; list, all = of.Frames(least) {
		least *= 2
	}
	d, deepest := new(drawing), 0
	stacks := false // one that is more than the note that there is none
	for _, f := range list {
		stacks = stacks || !strings.HasPrefix(f.Name, "(")
		if f.Depth >= deepestFrame {
			continue
		}
		deepest = max(deepest, f.Depth)
		text, strong := frame(f.Name)
		d.frame(f, all, text, strong)
	}
	if !stacks {
		return nil
	}
	d.height = float64(deepest+1)*frameHeight + 4
	return &Chart{Title: title, Note: note, drawing: d}
}

// frame draws a frame. flame.js moves it: by its place, its width and its depth.
func (d *drawing) frame(f table.Frame, all uint64, name string, strong bool) {
	x, width := float64(f.Before)/float64(all), float64(f.Weight)/float64(all)
	y := float64(f.Depth) * frameHeight
	class := "py"
	if !strong {
		class = "set"
	}
	fmt.Fprintf(&d.b, `<g class="frame" data-x="%.6f" data-w="%.6f" data-d="%d" data-name="%s">`, x, width, f.Depth,
		escaped(figures.Cut(name, maxHover)))
	hover := fmt.Sprintf("%s: %s, %s", f.Name, duration(f.Weight), table.Words(width, table.Share))
	d.rect(class, x*chartWidth, y, max(width*chartWidth-0.6, 0.4), frameHeight-1, hover)
	if room := int((width*chartWidth - 8) / 6.8); room >= 4 {
		d.text("in", x*chartWidth+3, y+12, figures.Cut(name, room))
	} else {
		d.text("in", x*chartWidth+3, y+12, "")
	}
	d.b.WriteString("</g>\n")
}
