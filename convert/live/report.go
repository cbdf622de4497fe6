package live

import (
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Report has the figures of an interval (Now) and of all intervals up to its end (All).
type Report struct {
	From, To uint64    // ns from the start of the recording
	Time     time.Time // of To; zero where the log has no clock
	Now, All Figures

	GPUs      []GPU
	Host      Memory // pinned memory of the host
	Copies    []Row  // by direction
	Kernels   []Row
	Functions []Row
	Lines     []Row // GPU work by the Python line that launched it; none until a call has a Python frame
	Errors    []Row // by function and error
	Losses    []Row // by cause
}

// Length is the length of the interval in ns.
func (r *Report) Length() uint64 { return r.To - r.From }

// Figures count what happened.
type Figures struct {
	Calls    uint64 `json:"calls"`    // outermost calls that returned
	CallTime uint64 `json:"call_ns"`  // ns in them, of all threads
	Launches uint64 `json:"launches"` // calls that launch a kernel or a graph
	Failed   uint64 `json:"failed"`   // outermost calls that returned an error
	Kernels  uint64 `json:"kernels"`  // that ended
	Copies   uint64 `json:"copies"`   // that ended
	Memsets  uint64 `json:"memsets"`  // that ended
	GPUTime  uint64 `json:"gpu_ns"`   // ns of all work, of all streams
	Lost     uint64 `json:"lost"`     // records
}

// Work is the number of all pieces of GPU work.
func (f *Figures) Work() uint64 { return f.Kernels + f.Copies + f.Memsets }

func (f *Figures) add(o *Figures) {
	for _, x := range []struct {
		to   *uint64
		more uint64
	}{{&f.Calls, o.Calls}, {&f.CallTime, o.CallTime}, {&f.Launches, o.Launches}, {&f.Failed, o.Failed},
		{&f.Kernels, o.Kernels},
		{&f.Copies, o.Copies}, {&f.Memsets, o.Memsets}, {&f.GPUTime, o.GPUTime}, {&f.Lost, o.Lost}} {
		*x.to = sketch.Sum(*x.to, x.more)
	}
}

// A Row counts what has a name.
type Row struct {
	Name string `json:"name"`
	Now  Count  `json:"now"`
	All  Count  `json:"all"`
}

// A Count counts things, with their time or size where they have one.
type Count struct {
	N     uint64 `json:"count"`
	Time  uint64 `json:"ns"`
	Bytes uint64 `json:"bytes"`
}

// Mean is the mean time in ns.
func (c *Count) Mean() uint64 { return c.Time / max(c.N, 1) }

func (c *Count) add(o Count) {
	c.N, c.Time, c.Bytes = sketch.Sum(c.N, o.N), sketch.Sum(c.Time, o.Time), sketch.Sum(c.Bytes, o.Bytes)
}

// A GPU is a device.
type GPU struct {
	Index  uint32
	Name   string
	Busy   uint64           // ns of the interval with work
	All    uint64           // ns with work so far
	Queue  float64          // launches whose work had not begun, the mean over the interval
	Memory Memory           // of the device
	Idle   []Idle           // what Thread did while the GPU was idle, the largest part first; none if unknown
	Thread *timeline.Thread // the main thread, if it launches work of the GPU, else another one that does; nil if unknown
	Sensors
}

// A Memory is allocated memory in bytes, when the report was made.
type Memory struct{ Live, Peak uint64 }
