package convert

import (
	"errors"
	"io"
	"time"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Compression is how a trace is compressed.
type Compression string

// The compressions.
const (
	Gzip Compression = "gzip"
	None Compression = "none"
)

// Options of a conversion. The zero Options take everything and compress with gzip.
type Options struct {
	Compress Compression
	Filter   Filter
	// Progress is told now and then how far the conversion is, 0 to 1, and how many
	// slices it has written.
	Progress func(share float64, slices uint64)
}

// A job is one conversion of one or more logs.
type job struct {
	Options
	logs  []*log
	known *gpuTable
	kept  string          // what was kept to fit a size
	taken map[uint32]bool // numbers of processes and threads that the trace has
}

// A log is a log on its way into a trace.
type log struct {
	name   string
	open   opener
	damage *tracelog.Damage
	filter *tracelog.Filter
	all    uint64 // events in the whole log, where a filter is set; 0 when that is not known
	shift  uint64
	text   string // how its clock was brought together with that of others
	*catalog
	*converter
}

func newJob(o Options, names []string, openers []opener) *job {
	j := &job{Options: o, known: newGPUTable(), taken: make(map[uint32]bool)}
	if j.Progress == nil {
		j.Progress = func(float64, uint64) {}
	}
	for i, name := range names {
		j.logs = append(j.logs, &log{name: name, open: openers[i]})
	}
	return j
}

// scanShare is what part of the time the first reading takes, about.
const scanShare = 0.12

// read does the first reading of all logs.
func (j *job) read() error {
	for i, l := range j.logs {
		filter, err := j.Filter.resolve(l)
		if err != nil {
			return err
		}
		l.filter = filter
		if err := l.read(func(share float64) {
			j.Progress(scanShare*(float64(i)+share)/float64(len(j.logs)), 0)
		}); err != nil {
			return err
		}
		l.catalog.gpus(j.known)
	}
	return nil
}

// read does the first reading.
func (l *log) read(progress func(share float64)) error {
	r, err := l.open()
	if err != nil {
		return err
	}
	defer r.Close()
	l.catalog = newCatalog()
	if l.filter != nil {
		l.catalog.filter = l.filter
		if err := r.Select(*l.filter); err != nil {
			return err
		}
	}
	if l.filter == nil { // which looks at other fields
		r.Project(placing)
	}
	r.Parallel(2)
	err = l.catalog.read(r, progress)
	l.damage = r.Damage()
	return err
}

// send does the second reading and gives everything to the sink.
func (j *job) send(sink Sink, shift func(uint64)) ([]Summary, error) {
	sink.GPUs(j.known.list)
	for _, l := range j.logs {
		shift(l.shift)
		if err := j.prepare(l, sink); err != nil {
			return nil, err
		}
		l.converter.describe()
	}
	var all []Summary
	var slices uint64
	ids := new(workIDs)
	for i, l := range j.logs {
		c := l.converter
		c.ids = ids
		c.progress = func(share float64) {
			share = (float64(i) + share) / float64(len(j.logs))
			j.Progress(scanShare+(1-scanShare)*share, slices+c.found.slices())
		}
		shift(l.shift)
		if err := c.run(); err != nil {
			return nil, err
		}
		slices += c.found.slices()
		all = append(all, j.summary(l))
	}
	return all, nil
}

// summary says what became of a log.
func (j *job) summary(l *log) Summary {
	s := l.summarize(l.damage)
	s.Aligned = l.text
	if j.Filter.limits() || j.kept != "" {
		c := l.converter
		s.LeftOut = &LeftOut{Of: l.all, Slices: c.found.left, Unknown: l.filter != nil && l.all == 0, What: j.kept}
		if l.filter != nil && l.all > 0 {
			s.LeftOut.Records = l.all - min(l.all, c.taken)
		}
	}
	return s
}

// prepare makes a log's converter.
func (j *job) prepare(l *log, sink Sink) error {
	l.converter = newConverter(l.catalog, l.open, sink)
	l.converter.known, l.converter.damage = j.known, l.damage
	l.converter.pidOffset = j.pidOffset(l)
	l.converter.selection, l.converter.ofCalls = j.Filter.selection()
	return l.converter.makeSessions()
}

// run converts the logs, of which the first reading is done, into a trace on w.
func (j *job) run(w io.Writer) ([]Summary, error) {
	o := j.align()
	out := j.compressor(w)
	if j.Compress == None {
		o.PieceBytes = plainPiece
	}
	pw := perfetto.NewWriter(out, o)
	s := newPerfettoSink(pw, j.sessions() > 1)
	all, err := j.send(s, func(shift uint64) { s.shift = shift })
	if err == nil {
		if err = errors.Join(pw.Close(), out.Close()); err != nil {
			return all, &writeError{err}
		}
		return all, nil
	}
	out.Close() // the goroutines end; the trace is given up
	return nil, err
}

// plainPiece is the size of the pieces of a trace that is not compressed.
const plainPiece = 64 << 10

// sessions is how many processes a trace will show.
func (j *job) sessions() (n int) {
	for _, l := range j.logs {
		for _, pid := range l.catalog.pids {
			n += max(len(l.catalog.processes[pid].programs), 1)
		}
	}
	return n
}

// compressor returns what compresses a trace on its way to w.
func (j *job) compressor(w io.Writer) io.WriteCloser {
	if j.Compress == None {
		return &plainWriter{w: w, buffer: make([]byte, 0, plainPiece)}
	}
	return newGzipWriter(w)
}

// A plainWriter collects what is small, and passes large pieces on without a copy.
type plainWriter struct {
	w      io.Writer
	buffer []byte
	err    error
}

func (p *plainWriter) Write(b []byte) (int, error) {
	if len(b) > cap(p.buffer)-len(p.buffer) {
		p.flush()
	}
	if len(b) < cap(p.buffer)/2 {
		p.buffer = append(p.buffer, b...)
	} else {
		p.flush()
		p.write(b)
	}
	if p.err != nil {
		return 0, p.err
	}
	return len(b), nil
}

func (p *plainWriter) flush() {
	if len(p.buffer) > 0 {
		p.write(p.buffer)
		p.buffer = p.buffer[:0]
	}
}

func (p *plainWriter) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
}

func (p *plainWriter) Close() error {
	p.flush()
	return p.err
}

// A writeError is a failure of the trace's file, not of the log's.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// duration as tests and messages say it.
func ns(d uint64) time.Duration { return time.Duration(min(d, 1<<62)) }

// offsetBits are those of the largest number that Linux gives a process (PID_MAX_LIMIT).
const offsetBits = 22

// pidOffset is what is added to the numbers of a log's processes and threads, so that
// none is one of another log's. The trace processor knows a thread by its number alone.
func (j *job) pidOffset(l *log) uint32 {
	own := make(map[uint32]bool)
	for _, pid := range l.catalog.pids {
		own[pid] = true
	}
	for key := range l.catalog.groups {
		if (key.kind == tracelog.KindCall || key.kind == tracelog.KindAPI) && !key.mixed {
			own[l.catalog.globalTID(key.pid, key.id)] = true
		}
	}
	offset := uint32(0)
	for j.collides(own, offset) {
		offset += 1 << offsetBits
	}
	for number := range own {
		j.taken[number+offset] = true
	}
	return offset
}

func (j *job) collides(own map[uint32]bool, offset uint32) bool {
	for number := range own {
		if j.taken[number+offset] {
			return true
		}
	}
	return false
}
