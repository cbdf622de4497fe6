package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
)

// waitHandles remember the streams on which the work of launches with a handle ran, and the
// contexts in which the work of threads ran.
type waitHandles struct {
	recent   [recentUses]use // lets nearly all launches do without a map
	launches map[handleUser][]*waitStream
	graphs   map[handleUser][]*waitStream // for launches of graphs, whose work may run on other streams too
	named    map[*waitStream]bool         // streams in launches
	made     map[waitStreamKey]handleUser // streams without work so far, by the call that made them
	idle     map[read.StreamHandle]bool   // their handles
	unseen   []waitStreamKey              // streams that were made by calls without a handle
	callers  map[uint32]caller
}

const (
	recentUses = 64

	// maxStreamsOfHandle bounds the streams that a handle may stand for, one after the
	// other.
	maxStreamsOfHandle = 64

	// maxUnseenStreams bounds the streams without a handle: with many nothing is certain.
	maxUnseenStreams = 16

	// maxHandles bounds the handles, for a program that keeps making streams.
	maxHandles = 1 << 16
)

// A handleUser is a handle on a thread.
type handleUser struct {
	handle read.StreamHandle
	tid    uint32
}

type use struct {
	handleUser
	stream *waitStream
}

// A caller has the context of a thread's work.
type caller struct {
	context uint32
	several bool
}

// key drops the thread from handles that mean one stream on all threads. Only the thread's
// default stream differs from thread to thread.
func (u handleUser) key() handleUser {
	if u.handle != read.ThreadStream {
		u.tid = 0
	}
	return u
}

// learn notes that work of a call ran on a stream.
func (h *waitHandles) learn(u handleUser, graph bool, s *waitStream) {
	latest := use{u, s}
	slot := &h.recent[(uint64(u.handle)^uint64(u.tid)<<32)*0x9E3779B97F4A7C15>>58]
	if *slot == latest {
		return
	}
	*slot = latest
	h.begin()
	c, known := h.callers[u.tid]
	if known {
		c.several = c.several || c.context != s.out.Context.ID
	} else {
		c.context = s.out.Context.ID
	}
	h.callers[u.tid] = c
	if u.handle == 0 {
		return
	}
	if graph {
		note(h.graphs, u.key(), s)
		return
	}
	note(h.launches, u.key(), s)
	h.named[s] = true
}

func (h *waitHandles) begin() {
	if h.launches == nil {
		h.launches, h.graphs = make(map[handleUser][]*waitStream), make(map[handleUser][]*waitStream)
		h.named, h.callers = make(map[*waitStream]bool), make(map[uint32]caller)
		h.made, h.idle = make(map[waitStreamKey]handleUser), make(map[read.StreamHandle]bool)
	}
}

// made notes that a call made a stream: launches that CUPTI alone records do not name theirs.
func (j *waitJoiner) made(u handleUser, key waitStreamKey) {
	h := &j.handles
	h.begin()
	if s := j.streams[key]; s != nil {
		note(h.launches, u.key(), s)
		h.named[s] = true
	} else if len(h.made) < maxHandles {
		h.made[key], h.idle[u.handle] = u, true
	}
}

func note(known map[handleUser][]*waitStream, u handleUser, s *waitStream) {
	list := known[u]
	if slices.Contains(list, s) || len(list) >= maxStreamsOfHandle || list == nil && len(known) >= maxHandles {
		return
	}
	known[u] = append(list, s)
}

// of returns the streams that a call names, none if no launch has named them. Each context has
// a default stream: of several contexts the thread's context counts.
func (h *waitHandles) of(c *waitingCall) []*waitStream {
	if c.Stream == 0 {
		return nil
	}
	u := handleUser{c.Stream, c.TID}.key()
	list := h.launches[u]
	if graphs := h.graphs[u]; len(list) == 0 && len(graphs) == 1 {
		list = graphs
	}
	if c.Stream > read.ThreadStream {
		return list
	}
	own, known := h.callers[c.TID]
	if !known || own.several {
		return list
	}
	var streams []*waitStream
	for _, s := range list {
		if s.out.Context.ID == own.context {
			streams = append(streams, s)
		}
	}
	return streams
}

// unnamed returns the streams of a list that no handle is known for.
func (h *waitHandles) unnamed(streams []*waitStream) (list []*waitStream) {
	for _, s := range streams {
		if !h.named[s] {
			list = append(list, s)
		}
	}
	return list
}

// oneContext reports whether all streams belong to one context.
func oneContext(streams []*waitStream) bool {
	for _, s := range streams {
		if s.out.Context.ID != streams[0].out.Context.ID {
			return false
		}
	}
	return true
}
