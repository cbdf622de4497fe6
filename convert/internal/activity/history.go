package activity

import (
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A Function is a function that was called.
type Function struct {
	Name, Library string
	Role          Role
	Place         string // where it was called, "" for any place

	places map[any]*Function

	index   int
	loading *Function // the function in calls that loaded code; itself there
	loads   bool
}

// A Role is the part that a function plays in the idle time of a GPU.
type Role uint8

// The roles.
const (
	OtherRole    Role = iota
	Launching         // puts work on a GPU
	WaitsAll          // waits for the work of a whole context
	Waits             // waits for a stream or an event
	Allocating        // allocates or frees memory, and may wait for the GPU to do so
	Loading           // loads code
	Ordering          // makes a stream wait
	Initialising      // makes a context
	Capturing         // captures, builds or instantiates a graph
)

// RoleOf returns the role of a function by its name.
func RoleOf(name string) Role {
	t, base := cudaapi.TraitsOf(name), cudaapi.Unversioned(name)
	switch {
	case t.Waits == cudaapi.ContextWait:
		return WaitsAll
	case t.Waits != cudaapi.NoWait:
		return Waits
	}
	f := cudaapi.ByName(name)
	switch {
	case f != nil && f.Category == "graph" && containsAny(base, "BeginCapture", "EndCapture", "Instantiate", "GraphAdd",
		"GraphCreate", "GraphClone"):
		return Capturing
	case t.MayWork:
		return Launching
	case f == nil:
		return OtherRole
	case f.Category == "wait":
		return Ordering
	case f.Category == "context" && (strings.HasSuffix(base, "Create") || strings.HasSuffix(base, "Retain")):
		return Initialising
	case f.Category == "module" && !strings.Contains(base, "Unload"):
		return Loading
	case f.Category == "memory" && !strings.HasSuffix(base, "Async") && allocates(base):
		return Allocating
	}
	return OtherRole
}

func allocates(base string) bool {
	return containsAny(base, "Malloc", "Alloc", "Free", "ArrayCreate", "Array3DCreate", "ArrayDestroy", "Register",
		"Unregister")
}

func containsAny(name string, words ...string) bool {
	for _, word := range words {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// Functions are the functions of all threads.
type Functions struct{ list []*Function }

// Add adds a function.
func (f *Functions) Add(name, library string) *Function {
	fn := &Function{Name: name, Library: library, Role: RoleOf(name), index: len(f.list)}
	loading := *fn
	loading.loads, loading.loading = true, &loading
	fn.loading = &loading
	f.list = append(f.list, fn)
	return fn
}

// mostPlaces bounds the places of a function.
const mostPlaces = 16

// From returns the function as called in a place, which has a key and a text. Beyond mostPlaces places it is the
// function itself.
func (f *Function) From(key any, text func() string) *Function {
	at := f.places[key]
	switch {
	case at != nil:
		return at
	case len(f.places) >= mostPlaces:
		return f
	case f.places == nil:
		f.places = make(map[any]*Function)
	}
	placed := *f
	placed.Place, placed.places = text(), nil
	f.places[key] = &placed
	return &placed
}

// Title is the name with the place.
func (f *Function) Title() string {
	if f.Place == "" {
		return f.Name
	}
	return f.Name + " at " + f.Place
}

// Loads reports whether the call loaded code, itself or in a call within it.
func (f *Function) Loads() bool { return f.loads || f.Role == Loading }

// A History has the latest calls of a thread, without those within other calls.
type History struct {
	*timeline.Thread
	calls   []call // a ring once it has its full size
	first   uint64 // number of the oldest call
	count   uint64 // calls so far
	cursor  uint64 // number of a call near those that were looked for last
	room    *Room
	dropped bool
	times   times
}

type call struct {
	start, end uint64
	function   *Function
}

// A Room bounds the calls of all histories together.
type Room struct {
	left   int
	states int // states and samples
	owners *owners
}

const (
	roomOfAll    = 1 << 20 // calls in all histories
	roomOfThread = 1 << 18 // calls in a history
	leastRoom    = 1 << 6
	roomOfStates = 1 << 20 // states and samples in all histories
)

// NewRoom returns the room of the histories of a timeline.
func NewRoom() *Room { return &Room{roomOfAll, roomOfStates, newOwners()} }

// NewHistory returns a history without calls.
func (r *Room) NewHistory(t *timeline.Thread) *History { return &History{Thread: t, room: r} }

// Add adds a call that lies in no other one.
func (h *History) Add(start, end uint64, f *Function) {
	if int(h.count-h.first) == len(h.calls) && !h.grow() {
		h.dropped = true
		if len(h.calls) == 0 {
			return
		}
		h.first++
	}
	h.calls[h.count&uint64(len(h.calls)-1)] = call{start, end, f}
	h.count++
}

// grow doubles the size. It fails where there is no room.
func (h *History) grow() bool {
	size := max(2*len(h.calls), leastRoom)
	if more := size - len(h.calls); size > roomOfThread || more > h.room.left {
		return false
	} else {
		h.room.left -= more
	}
	calls := make([]call, size)
	for i := h.first; i < h.count; i++ {
		calls[i&uint64(size-1)] = *h.at(i)
	}
	h.calls = calls
	return true
}

func (h *History) at(i uint64) *call { return &h.calls[i&uint64(len(h.calls)-1)] }

// Loaded notes that a call within the latest one loaded code.
func (h *History) Loaded() {
	if h.count > h.first {
		last := h.at(h.count - 1)
		last.function = last.function.loading
	}
}

// A Spent is the time within an interval that a thread spent in one call, or outside of calls.
type Spent struct {
	Function *Function // nil outside of calls
	Owner    *Owner    // what it did outside of calls, nil if unknown
	Weight   float64   // the larger, the more of the time of which nothing is known belongs to Owner
	Looks    uint64    // samples, or looks at short blocks, by which Owner is known; 0 if chance has no part in it
	Unknown  bool      // the history has no longer, or not yet, what the thread did
	Time     uint64    // within the interval
	Start    uint64    // of the call, which may be before the interval
	End      uint64
}

// during appends what the thread did from one time to another.
func (h *History) during(from, to uint64, list []Spent) []Spent {
	i := h.find(from)
	if h.dropped && i == h.first {
		oldest := to
		if i < h.count {
			oldest = min(oldest, h.at(i).start)
		}
		if oldest > from {
			list = append(list, Spent{Unknown: true, Time: oldest - from})
			from = oldest
		}
	}
	for ; i < h.count && from < to; i++ {
		c := h.at(i)
		if start := min(c.start, to); start > from {
			list = h.outside(from, start, list)
			from = start
		}
		if end := min(c.end, to); end > from {
			list = append(list, Spent{Function: c.function, Time: end - from, Start: c.start, End: c.end})
			from = end
		}
	}
	if from < to {
		list = append(list, Spent{Unknown: true, Time: to - from})
	}
	return list
}

// find returns the number of the first call that ends after a time.
func (h *History) find(at uint64) uint64 {
	i := min(max(h.cursor, h.first), h.count)
	for i > h.first && h.at(i-1).end > at {
		i--
	}
	for i < h.count && h.at(i).end <= at {
		i++
	}
	h.cursor = i
	return i
}
