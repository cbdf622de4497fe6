package report

import (
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
	if r.Stacks == nil {
		return nil
	}
	least := leastFrame
	list, all := r.Stacks.Frames(least)
	for ; len(list) > mostFrames; list, all = r.Stacks.Frames(least) {
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
		d.frame(f, all)
	}
	if !stacks {
		return nil
	}
	d.height = float64(deepest+1)*frameHeight + 4
	note := "GPU time of what each line, and what it called, launched: the outermost line on top. " +
		"Lines of packages and of Python itself are grey."
	return &Chart{Title: "GPU time by Python stack", Note: note, drawing: d}
}

// frame draws a frame. flame.js moves it: by its place, its width and its depth.
func (d *drawing) frame(f table.Frame, all uint64) {
	x, width := float64(f.Before)/float64(all), float64(f.Weight)/float64(all)
	y := float64(f.Depth) * frameHeight
	class := "py"
	if !(&timeline.PythonFrame{File: f.Name}).IsOwn() {
		class = "set"
	}
	name := f.Name[strings.LastIndexByte(f.Name, '/')+1:]
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
