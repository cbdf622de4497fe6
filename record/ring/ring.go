// Package ring keeps the newest part of a recording. Input: the records of a recording, through a
// [tracelog.Writer], for as long as it lasts. Output: on request, a log of the last seconds that reads
// like any other log.
//
// The log is written in segments. Each is a log of its own, in a file without a name: nothing is left
// of it when the recorder is killed. A segment that is older than the window is removed. What later
// segments need of it goes to a state: definitions, notes, the NVTX ranges that are open and the
// allocations that are live. A snapshot is the state and the segments, joined record by record, without
// the events that lie outside the window.
//
//	ring.go        segments come and go
//	state.go       what removed segments leave behind
//	snapshot.go    the window becomes a log
//	memory.go      what is allocated, from the calls
//	earlier.go     GPU work in the window whose call is not
//	condition.go   conditions that ask for a snapshot; watch.go: records are held against them
package ring

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Options of a Ring.
type Options struct {
	Last   time.Duration // length of the window
	Disk   uint64        // most bytes on disk, but for those that are written between two ticks
	Create func() (*os.File, error)

	now func() tracelog.Clock // for tests; nil is the host's
}

// Parts of the window and of the disk space that one segment may take. So the ring holds up to an
// eighth more than the window.
const (
	partsOfLast = 8
	partsOfDisk = 16
)

// A Ring is a recording of which only the newest part is kept. The methods may be called from any
// goroutine.
type Ring struct {
	Writer *tracelog.Writer // takes the records
	o      Options
	began  uint64 // ns of CLOCK_MONOTONIC

	mu       sync.Mutex
	segments []*segment // oldest first; the last one is being written
	before   *state     // of the segments that were removed
}

// A segment is a log of a part of the recording.
type segment struct {
	from  uint64 // ns of CLOCK_MONOTONIC: when it was begun
	clock tracelog.Clock
	file  *os.File // for reading
	size  int64    // once it is written
	users int      // the ring and snapshots; mu of the ring is held
}

// New begins a recording.
func New(o Options) (*Ring, error) {
	if o.now == nil {
		o.now = readClocks
	}
	r := &Ring{o: o, before: newState()}
	s, f, err := r.create()
	if err != nil {
		return nil, err
	}
	r.Writer, err = tracelog.NewFileWriter(f, tracelog.Options{})
	if err != nil {
		return nil, err
	}
	r.began, r.segments = s.from, []*segment{s}
	return r, nil
}

// create makes a segment and the file to write it to.
func (r *Ring) create() (*segment, *os.File, error) {
	f, err := r.o.Create()
	if err != nil {
		return nil, nil, err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	clock := r.o.now()
	return &segment{from: clock.Monotonic, clock: clock, file: os.NewFile(uintptr(fd), f.Name()), users: 1}, f, nil
}

// Now is the time on the ring's clock, CLOCK_MONOTONIC in ns.
func (r *Ring) Now() uint64 { return r.o.now().Monotonic }

func readClocks() tracelog.Clock {
	c := host.ReadClocks()
	return tracelog.Clock{
		Monotonic: c.Monotonic, Realtime: c.Realtime, Boottime: c.Boottime, Spread: c.Spread, MaxError: c.MaxError,
	}
}

// Tick begins a new segment when it is time, and removes the segments that no window needs that ends at
// a time or later. The error says why a segment cannot be begun or read; the recording goes on.
func (r *Ring) Tick(until uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.segments) == 0 {
		return os.ErrClosed
	}
	var err error
	now, current := r.Now(), r.segments[len(r.segments)-1]
	if now-current.from >= uint64(r.o.Last)/partsOfLast || uint64(r.Writer.Size()) >= r.room()/partsOfDisk {
		err = r.turn()
	}
	return errors.Join(err, r.evict(until)) // a full disk has room again when a segment is removed
}

// turn ends the current segment and begins a new one. mu is held.
func (r *Ring) turn() error {
	next, f, err := r.create()
	if err != nil {
		return err
	}
	if err := r.Writer.Switch(f, tracelog.End{Time: next.from, Complete: 1}); err != nil {
		f.Close()
		next.file.Close()
		return err
	}
	last := r.segments[len(r.segments)-1]
	if info, err := last.file.Stat(); err == nil {
		last.size = info.Size()
	}
	r.segments = append(r.segments, next)
	return nil
}

// evict removes segments that lie before the window that ends at a time, and the oldest while all take
// too much space. mu is held.
func (r *Ring) evict(until uint64) (err error) {
	for len(r.segments) > 1 && (r.segments[1].from+uint64(r.o.Last) <= until || r.size() > r.room()) {
		oldest := r.segments[0]
		if err = r.before.fold(oldest); err != nil {
			err = errState{err}
		}
		r.segments = r.segments[1:]
		oldest.release()
	}
	return err
}

// room is the number of bytes that the segments may have.
func (r *Ring) room() uint64 { return r.o.Disk - min(r.o.Disk/2, tracelog.MostReserved) }

// errState says that a removed segment could not be read.
type errState struct{ error }

func (e errState) Error() string {
	return "definitions, open ranges and live allocations may be missing: " + e.error.Error()
}

// size is the number of bytes of all segments. mu is held.
func (r *Ring) size() uint64 {
	n := uint64(r.Writer.Size())
	for _, s := range r.segments {
		n += uint64(s.size)
	}
	return n
}

// Snapshot returns the window that ends at a time, and begins a new segment. Done has to be called.
func (r *Ring) Snapshot(until uint64) (*Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.segments) == 0 {
		return nil, os.ErrClosed
	}
	if err := r.turn(); err != nil {
		return nil, err
	}
	return r.snapshot(until, r.segments[:len(r.segments)-1]), nil
}

// Close ends the recording, and returns the window that ends now. Done has to be called, too.
func (r *Ring) Close(until uint64) (*Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.Writer.Close(tracelog.End{Time: until, Complete: 1})
	s := r.snapshot(until, r.segments)
	for _, old := range r.segments {
		old.release()
	}
	r.segments = nil
	return s, err
}

// snapshot returns the window in some segments. mu is held.
func (r *Ring) snapshot(until uint64, segments []*segment) *Snapshot {
	s := &Snapshot{ring: r, segments: append([]*segment(nil), segments...), state: r.before.clone()}
	for _, used := range s.segments {
		used.users++
	}
	begin := s.segments[0]
	s.Held = Held{Last: r.o.Last, From: max(begin.from, until-min(until, uint64(r.o.Last))), Until: until}
	s.Held.Whole = s.Held.From <= r.began
	s.begin = begin.clock
	return s
}

// release closes a segment that nobody needs any more. mu of the ring is held.
func (s *segment) release() {
	if s.users--; s.users == 0 {
		s.file.Close()
	}
}

// open opens a segment for reading.
func (s *segment) open() (*tracelog.Reader, error) {
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	return tracelog.NewReader(s.file, info.Size(), "a segment of the log")
}

// each calls take with the blocks of some kinds that a filter may select.
func (s *segment) each(f tracelog.Filter, take func(*tracelog.Block)) error {
	r, err := s.open()
	if err != nil {
		return err
	}
	if err := r.Select(f); err != nil {
		return err
	}
	for r.Next() {
		if b := r.Block(); slices.Contains(f.Kinds, b.Kind) {
			take(b)
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	return nil
}
