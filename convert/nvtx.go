package convert

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// A NoRangeError says that no NVTX range of the logs matches Filter.NVTX.
type NoRangeError struct {
	Pattern pattern.Ranges
	Names   []string // of the ranges that there are, sorted, each once
}

func (e *NoRangeError) Error() string {
	if len(e.Names) == 0 {
		return "there are no NVTX ranges"
	}
	return fmt.Sprintf("no NVTX range matches %q", e.Pattern)
}

func isNoRange(err error) bool {
	var none *NoRangeError
	return errors.As(err, &none)
}

// unmatched is the error of a conversion whose filter matches no NVTX range, nil for any other.
func (c *conversion) unmatched() error {
	if c.Filter.NVTX.None() {
		return nil
	}
	failed := &NoRangeError{Pattern: c.Filter.NVTX}
	for _, l := range c.logs {
		found := &l.chosen.Ranges
		if found.Matched > 0 {
			return nil
		}
		failed.Names = append(failed.Names, found.Names...)
	}
	slices.Sort(failed.Names)
	failed.Names = slices.Compact(failed.Names)
	return failed
}

// noteRanges says in the timeline that only what is in NVTX ranges is there.
func (l *log) noteRanges(p *pipeline.Pipeline) {
	if l.chosen == nil || l.chosen.Ranges.Pattern.None() || l.chosen.Ranges.Matched == 0 {
		return
	}
	p.Emit(&timeline.Note{Time: l.chosen.Ranges.First, Text: "only what is in " + l.rangeWords()})
}

// rangeWords are the NVTX ranges that the filter selects, in words.
func (l *log) rangeWords() string {
	found := &l.chosen.Ranges
	return fmt.Sprintf("NVTX ranges matching %q: %s", found.Pattern, figures.Count(found.Matched, "range", "ranges"))
}
