// Package wording has the phrases of messages that depend on how a person gives options: what to do about a problem, and what was asked
// for. Recording and conversion know no command line: they put a phrase into a message, an error or a note as they put a number. The
// command says once, at its start, how it words the phrases.
package wording

// A Phrase is a phrase, in words that name no option.
type Phrase string

// What to do.
const (
	OtherPlace   Phrase = "choose another place"
	OtherName    Phrase = "choose another name"
	Start        Phrase = "a recorder from the beginning" // what to start a program with, so that its GPU work is recorded
	CallBuffer   Phrase = "give calls a larger buffer"
	RuntimeCalls Phrase = "records of the runtime's calls have their names"
	CUPTICalls   Phrase = "CUPTI can record them"
	ProbedEnds   Phrase = "probes have _exit and exec wait for them"
	MetricNames  Phrase = "the names can be listed"
	MetricsRate  Phrase = "choose a lower rate"
	AllGPUs      Phrase = "all of them can be sampled"
	NameSteps    Phrase = "nobody has said which NVTX ranges are steps"
	Untested     Phrase = "no test of changes"
	Incomplete   Phrase = "incomplete logs may be compared"
	OtherGPU     Phrase = "runs on different GPUs may be compared"
	OtherDriver  Phrase = "runs with different drivers may be compared"
	OtherMode    Phrase = "runs that were recorded in different ways may be compared"
	Missing      Phrase = "names that match nothing may be allowed"
	AllColumns   Phrase = "a wider line and JSON have them"
	AllRows      Phrase = "write it with all rows"
	ErrorsReport Phrase = "the report errors has the callers"
	ShapesReport Phrase = "the report kernel_shapes has the grids"
	Show         Phrase = "the reports %s" // what shows a finding
	OfProcess    Phrase = "of process %d"
	OfTime       Phrase = "from %s to %s"
	RankReports  Phrase = "the reports ranks and kernels of its ranks, its clocks (report metrics)"
)

// What was asked for.
const (
	CaptureRange Phrase = "a capture range"
	Counters     Phrase = "the GPUs' counters"
	Delay        Phrase = "the delay of"
	MaxFiles     Phrase = "the most files"
	Ranks        Phrase = "the ranks"
)

var words map[Phrase]string

// Set sets the words of phrases. It is called before anything else is done.
func Set(all map[Phrase]string) { words = all }

// String returns the words of a phrase.
func (p Phrase) String() string {
	if w := words[p]; w != "" {
		return w
	}
	return string(p)
}
