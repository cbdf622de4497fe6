package parquet

import (
	"fmt"
	"runtime"
	"sync"
)

// mostWorkers bounds the goroutines that encode. Each takes some 30 MiB, and two keep up with the rows of one log.
const mostWorkers = 4

// An Encoders encodes row groups, of any number of files, on goroutines that end when nothing is left to encode.
type Encoders struct {
	turn    sync.Mutex
	written *sync.Cond // a row group is in its file
	workers int
	idle    []*encoder
	jobs    []*job   // in the order in which their row groups were added, and are written
	writing bool     // a goroutine writes chunks
	free    [][]byte // memory for chunks
	err     error    // the first one
}

// NewEncoders returns encoders for all processors, up to a bound.
func NewEncoders() *Encoders {
	e := &Encoders{workers: min(max(1, runtime.GOMAXPROCS(0)), mostWorkers)}
	e.written = sync.NewCond(&e.turn)
	for i := range e.workers {
		e.idle = append(e.idle, newEncoder(i))
	}
	return e
}

// Workers is the number of goroutines that encode columns.
func (e *Encoders) Workers() int { return e.workers }

// A RowGroup is a row group that is to be written. Goroutines call its functions.
type RowGroup struct {
	Rows int
	// Prepare is called once, before Values; nil for nothing to prepare. A worker is a number below that of
	// [Encoders.Workers].
	Prepare func(worker int)
	// Values returns the values of a column. The worker is done with them when it calls Values or Prepare again.
	Values func(worker, column int) Values
}

// A job is a row group that is not in its file yet.
type job struct {
	RowGroup
	writer *Writer
	group  group
	state  state
	next   int     // column to encode next
	chunks []chunk // encoded columns; without bytes before they are encoded, and when they are written
}

// A state is how far a job is.
type state uint8

const (
	added state = iota
	inPreparation
	prepared
)

// Group adds a row group to the file. It is written after those that were added before, to this file and to others that
// use the encoders. Wait tells of errors.
func (w *Writer) Group(e *Encoders, g RowGroup) {
	j := &job{RowGroup: g, writer: w, chunks: make([]chunk, len(w.options.Columns))}
	if g.Prepare == nil {
		j.state = prepared
	}
	e.turn.Lock()
	e.jobs = append(e.jobs, j)
	e.start()
	e.turn.Unlock()
}

// Wait waits until all row groups are written, and returns the first error.
func (e *Encoders) Wait() error {
	e.turn.Lock()
	defer e.turn.Unlock()
	for len(e.jobs) > 0 {
		e.written.Wait()
	}
	return e.err
}

// Err returns the first error of the row groups that have been written.
func (e *Encoders) Err() error {
	e.turn.Lock()
	defer e.turn.Unlock()
	return e.err
}

// start starts the goroutines that are idle.
func (e *Encoders) start() {
	for _, own := range e.idle {
		go e.work(own)
	}
	e.idle = e.idle[:0]
}

// work does what there is to do.
func (e *Encoders) work(own *encoder) {
	e.turn.Lock()
	for j := e.job(); j != nil; j = e.job() {
		if j.state == added {
			e.prepare(own, j)
		} else {
			e.encode(own, j)
		}
	}
	e.idle = append(e.idle, own)
	e.turn.Unlock()
}

// job returns the first row group of which something is left to begin, nil for none.
func (e *Encoders) job() *job {
	for _, j := range e.jobs {
		if j.state == added || j.state == prepared && j.next < len(j.chunks) {
			return j
		}
	}
	return nil
}

// prepare prepares a row group. Other goroutines may have found nothing to do meanwhile.
func (e *Encoders) prepare(own *encoder, j *job) {
	j.state = inPreparation
	e.turn.Unlock()
	j.Prepare(own.worker)
	e.turn.Lock()
	j.state = prepared
	e.start()
}

// encode encodes a column of a row group.
func (e *Encoders) encode(own *encoder, j *job) {
	column := j.next
	j.next++
	e.turn.Unlock()
	c := own.encode(&j.writer.options.Columns[column], j.Values(own.worker, column))
	e.turn.Lock()
	j.chunks[column] = *c
	if last := len(e.free) - 1; last >= 0 {
		c.bytes, e.free = e.free[last], e.free[:last]
	} else {
		c.bytes = nil
	}
	e.write()
}

// write writes the chunks whose turn it is. One goroutine does so at a time.
func (e *Encoders) write() {
	if e.writing {
		return
	}
	e.writing = true
	for len(e.jobs) > 0 && e.writeFrom(e.jobs[0]) {
		e.jobs = e.jobs[1:]
		e.written.Broadcast()
	}
	e.writing = false
}

// writeFrom writes chunks of a row group. It reports whether all have been written.
func (e *Encoders) writeFrom(j *job) bool {
	w := j.writer
	for done := len(j.group.chunks); done < len(j.chunks); done++ {
		c := &j.chunks[done]
		if c.bytes == nil {
			return false
		}
		e.turn.Unlock()
		j.put(c)
		e.turn.Lock()
		e.free, c.bytes = append(e.free, c.bytes[:0]), nil
	}
	w.end(&j.group, j.Rows)
	if e.err == nil {
		e.err = w.err
	}
	return true
}

// put writes the next chunk.
func (j *job) put(c *chunk) {
	w, g := j.writer, &j.group
	w.begin()
	if len(g.chunks) == 0 {
		g.at = w.at
	}
	if c.rows != j.Rows && w.err == nil {
		w.err = fmt.Errorf("column %s has %d rows, not %d", w.options.Columns[len(g.chunks)].Name, c.rows, j.Rows)
	}
	p := placed{chunk: *c, at: w.at, size: int64(len(c.bytes))}
	p.bytes = nil
	w.write(c.bytes)
	g.bytes += int64(p.plain)
	g.chunks = append(g.chunks, p)
}

// end ends a row group.
func (w *Writer) end(g *group, rows int) {
	g.rows, g.size = rows, w.at-g.at
	w.groups, w.rows = append(w.groups, *g), w.rows+int64(rows)
}
