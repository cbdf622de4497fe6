package pfsink

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// tracks are the tracks of a trace. The UI shows the group of all ranks, the groups of the GPUs, and the processes. A
// process has its main thread, its other threads, its marks, and groups, which the UI folds: its counters, those of
// each GPU, and what is on its streams. The queues of streams stand under the GPUs, by process, context and number.
//
// The UI orders what stands outside of groups by name, in one order for all processes and threads, and draws whatever
// comes behind the 50th track of that order below the processes (track_event.sql, and the plugins TrackEvent and
// ProcessThreadGroups). So the first group has a name that comes first, and the more tracks stand in groups, the
// better.
type tracks struct {
	w        *perfetto.Writer
	start    uint64 // Recording.Start
	several  bool   // there is more than one process
	gpus     []timeline.GPU
	pids     map[uint32]bool // that have been described
	threads  map[*timeline.Thread]*thread
	spans    map[*timeline.Track]*perfetto.Track
	counters map[*timeline.Counter]*perfetto.Counter
	queues   map[*timeline.Stream]*queue
	streams  []*timeline.Stream
	groups   map[groupKey]*perfetto.Group
	ranks    map[uint32]uint32     // PID of the first process of a rank that has a stream
	contexts map[contextKey]uint32 // the first context of a process on a GPU
}

// A groupKey identifies a group of tracks.
type groupKey struct {
	pid uint32 // 0 for the group of a GPU
	gpu int64  // GPU.Index, or noGPU, onStreams or ofSteps
}

// What a group of a process has in place of a GPU.
const (
	noGPU     = -1 - iota // its counters
	onStreams             // what is shown beside its streams
	ofSteps               // its steps and their critical path
)

// groupNames are the names of such groups. The UI has them in the order of their names, with "NVTX" and "Program": what
// tells the story comes before counters.
var groupNames = map[int64]string{noGPU: "Process counters", onStreams: "Ranges on streams", ofSteps: "Critical path"}

type contextKey struct {
	process *timeline.Process
	gpu     uint32
}

func newTracks(w *perfetto.Writer, r *timeline.Recording) tracks {
	return tracks{
		w: w, start: r.Start, several: r.Processes > 1,
		pids:     make(map[uint32]bool),
		threads:  make(map[*timeline.Thread]*thread),
		spans:    make(map[*timeline.Track]*perfetto.Track),
		counters: make(map[*timeline.Counter]*perfetto.Counter),
		queues:   make(map[*timeline.Stream]*queue),
		groups:   make(map[groupKey]*perfetto.Group),
		ranks:    make(map[uint32]uint32),
		contexts: make(map[contextKey]uint32),
	}
}

func (t *tracks) process(p *timeline.Process) {
	t.pids[p.PID] = true
	t.w.Process(perfetto.Process{PID: p.PID, PPID: p.PPID, Name: p.Name, Args: p.Args, Start: p.Start, Rank: len(t.pids)})
}

// A thread is the track of a thread's calls, with the calls that are open on it.
type thread struct {
	*perfetto.Track
	begun []begun // outermost first
}

type begun struct {
	end     uint64
	awaited []uint64 // IDs of the work for which the call waited
	depth   int32
}

// closeTo ends the open calls that do not contain a call of a depth that begins at a time. A
// selection may have left out calls between them.
func (t *thread) closeTo(start uint64, depth int32) {
	for n := len(t.begun); n > 0; n-- {
		if last := t.begun[n-1]; last.depth >= depth || last.end <= start {
			if len(last.awaited) == 0 {
				t.End(last.end)
			} else {
				t.EndWith(last.end, last.awaited)
			}
			t.begun = t.begun[:n-1]
			continue
		}
		return
	}
}

// thread returns the track of a thread whose first call or range begins at a time.
func (t *tracks) thread(of *timeline.Thread, first uint64) *thread {
	track := t.threads[of]
	if track == nil {
		info := perfetto.Thread{PID: of.Process.PID, TID: of.TID, Name: of.Title()}
		if of.Main { // it is the story
			info.Row = t.mainRow(of)
		} else {
			info.Rank = rankOf(first - min(first, t.start))
		}
		track = &thread{Track: t.w.Thread(info)}
		t.threads[of] = track
	}
	return track
}

// rankOf returns the place of a thread whose first call is at a time. The place has 31 bits: the
// bits of a floating-point number, which have the order of the numbers.
func rankOf(at uint64) int { return int(math.Float32bits(float32(at))) }

// Places of tracks in the group of a process.
const (
	placeHostMemory = iota
	placePools
	placeOverhead
	placeSampled // the first of the sampled counters

	placeLowered = placeOverhead // in the group of a GPU

	placeSteps = 0 // in the group of steps
	placePath  = 1
)

// span returns a track for spans, the first of which begins at a time.
func (t *tracks) span(of *timeline.Track, first uint64) *perfetto.Track {
	track := t.spans[of]
	if track == nil && of.Category == timeline.Functions && !of.Apart {
		track = t.thread(of.Thread, first).Beside()
		t.spans[of] = track
	}
	if track == nil {
		info := perfetto.TrackInfo{Name: of.Title(), PID: of.Process.PID}
		switch of.Category {
		case timeline.Memory:
			info.Group, info.Rank = t.group(of.Process, noGPU), placePools
		case timeline.CUPTI:
			info.Group, info.Rank = t.group(of.Process, noGPU), placeOverhead
		}
		switch {
		case of.Stream != nil:
			info.Name = t.own(of.Process) + rangesName(of)
			info.Group, info.Rank = t.group(of.Process, onStreams), streamPlace(of.Stream, 0)
		case of.Thread != nil:
			info.Name = t.ofRank(of.Process) + info.Name
			info.Thread = t.thread(of.Thread, first).Track
		}
		track = t.w.Track(info)
		t.spans[of] = track
	}
	return track
}

func (t *tracks) counter(c *timeline.Counter) *perfetto.Counter {
	counter := t.counters[c]
	if counter == nil {
		info := perfetto.TrackInfo{Name: c.Name, PID: c.Process.PID}
		if c.Host {
			info.Group, info.Rank = t.group(c.Process, noGPU), placeHostMemory
		} else {
			info.Group = t.group(c.Process, int64(c.GPU))
		}
		counter = t.w.Counter(info, perfetto.Bytes)
		t.counters[c] = counter
	}
	return counter
}

func (t *tracks) counterValue(v *timeline.CounterValue) {
	t.counter(v.Counter).Value(v.Time, int64(min(v.Value, math.MaxInt64)))
}

// ofSteps returns a track of the steps of a process.
func (t *tracks) ofSteps(p *timeline.Process, name string, place int) *perfetto.Track {
	return t.w.Track(perfetto.TrackInfo{Name: t.own(p) + name, PID: p.PID, Group: t.group(p, ofSteps), Rank: place})
}

// streamPlace is the place of a track of a stream in the group of a process: by stream, and by kind of the track.
func streamPlace(of *timeline.Stream, kind int) int {
	return 2*int(min(of.ID, math.MaxInt32/2-1)) + kind
}

// group returns the group of a process's tracks for a GPU, or one without a GPU. Without a process it is
// the group of the GPU.
func (t *tracks) group(p *timeline.Process, gpu int64) *perfetto.Group {
	key := groupKey{gpu: gpu}
	if p != nil {
		key.pid = p.PID
	}
	group := t.groups[key]
	if group == nil {
		name := groupNames[gpu]
		switch {
		case gpu >= 0 && p != nil:
			name = fmt.Sprintf("%s, GPU %d", groupNames[noGPU], gpu)
		case gpu >= 0:
			name = t.gpuName(uint32(gpu))
		}
		group = t.w.Group(perfetto.TrackInfo{Name: name, PID: key.pid})
		t.groups[key] = group
	}
	return group
}

// gpuName is the name of a GPU's tracks: "GPU 0 · H200".
func (t *tracks) gpuName(index uint32) string {
	if int(index) < len(t.gpus) && t.gpus[index].Name != "" {
		return fmt.Sprintf("GPU %d · %s", index, strings.TrimPrefix(t.gpus[index].Name, "NVIDIA "))
	}
	return fmt.Sprintf("GPU %d", index)
}

// A queue is the hardware queue of a stream.
type queue struct {
	*perfetto.Queue
	stream *timeline.Stream
	name   string
	nth    uint64 // number in the order of first use
	busy   uint64 // time of its work, ns
}

func (t *tracks) queue(of *timeline.Stream) *queue {
	q := t.queues[of]
	if q == nil {
		c := of.Context
		name := t.queueName(of)
		q = &queue{stream: of, name: name, nth: uint64(len(t.queues)), Queue: t.w.Queue(perfetto.QueueInfo{
			PID: c.Process.PID, GPU: c.GPU, Context: c.ID, Stream: of.ID, Name: name,
			Description: queueDescription(of),
		})}
		t.queues[of] = q
	}
	return q
}

// stream returns the stream of a kernel that had not ended, nil for an unknown one.
func (t *tracks) stream(h *timeline.Hang) *timeline.Stream {
	for _, of := range t.streams {
		if c := of.Context; c.Process.PID == h.PID && c.ID == h.Context && of.ID == h.Stream {
			return of
		}
	}
	return nil
}

// queueName returns the name of a stream's queue. The UI orders the queues of a GPU by name, so
// the process and the context, where there are several, stand in front, and the number is as wide as the largest one.
// The UI draws several spaces as one.
func (t *tracks) queueName(of *timeline.Stream) string {
	c := of.Context
	name := t.own(c.Process)
	key := contextKey{c.Process, c.GPU}
	if first, known := t.contexts[key]; !known {
		t.contexts[key] = c.ID
	} else if first != c.ID {
		name += fmt.Sprintf("context %d · ", c.ID)
	}
	width := len(strconv.FormatUint(uint64(of.Largest), 10))
	return name + fmt.Sprintf("Stream %*d%s", width, of.ID, of.Qualifier(of.Only))
}

// own is what the names of a process's tracks begin with where they may stand beside those of others, as pinned ones
// do.
func (t *tracks) own(p *timeline.Process) string {
	if t.several {
		return t.processName(p) + " · "
	}
	return ""
}

// ofRank is what the names of a thread's tracks begin with. They end in the TID: only ranks are worth more words.
func (t *tracks) ofRank(p *timeline.Process) string {
	if t.several && p.Rank.Known {
		return p.Rank.String() + " · "
	}
	return ""
}

// mainRow is the name of the row of a main thread's calls, which is pinned. It is not the thread's own name: the UI's
// command that pins a track by that would pin the group of the thread, which draws nothing.
func (t *tracks) mainRow(of *timeline.Thread) string {
	return t.ofRank(of.Process) + cmp.Or(of.Title(), "thread")
}

// processName names a process beside its stream: by its rank, for which the column of names has room, or by its name
// and PID, if it has no rank or is not the first process of the rank that uses a GPU.
func (t *tracks) processName(p *timeline.Process) string {
	if p.Rank.Known {
		first, taken := t.ranks[p.Rank.Number]
		if !taken {
			first = p.PID
			t.ranks[p.Rank.Number] = first
		}
		if first == p.PID {
			return fmt.Sprintf("rank %d", p.Rank.Number)
		}
	}
	return fmt.Sprintf("%s %d", p.Name, p.PID)
}

// streamName returns the name of a stream: "Stream 7 (default)", "Stream 13 (copy-in, copies)".
func streamName(of *timeline.Stream) string {
	return fmt.Sprintf("Stream %d%s", of.ID, of.Qualifier(of.Only))
}

func queueDescription(t *timeline.Stream) string {
	c := t.Context
	context := fmt.Sprint(c.ID)
	if c.Name != "" {
		context += " (" + c.Name + ")"
	}
	return fmt.Sprintf("process %d, context %s, stream %d, priority %d", c.Process.PID, context, t.ID, t.Priority)
}
