package tracelog

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Options of a Writer. The zero value is right for a recorder.
type Options struct {
	RowsPerBlock   int // records in a full block, at most schema.MostRowsWritten; 0 means 8192
	MaxOpen        int // most open blocks; 0 means 4096
	MaxMemory      int // most bytes of records in open blocks; 0 means 64 MiB
	MaxStrings     int // most strings; 0 means the limit of the format
	MaxStringBytes int // most bytes of strings; 0 means the limit of the format
}

func (o Options) withDefaults() Options {
	def := func(v *int, standard, most int) {
		if *v <= 0 {
			*v = standard
		}
		*v = min(*v, most)
	}
	def(&o.RowsPerBlock, 8192, schema.MostRowsWritten)
	def(&o.MaxOpen, 4096, 1<<20)
	def(&o.MaxMemory, 64<<20, 1<<40)
	def(&o.MaxStrings, schema.MaxStrings, schema.MaxStrings)
	def(&o.MaxStringBytes, schema.MaxStringBytes, schema.MaxStringBytes)
	return o
}

// MostReserved is the disk space, in bytes, that a writer keeps behind the end of a file that grows.
const MostReserved = blockfile.MostReserve

// A Writer writes a log. It keeps records in open blocks, one for each kind, process and thread
// or stream. A block goes to the file when it is full; Flush writes all of them. All methods
// may be called from any goroutine.
//
// While the file cannot be written (a full disk), the writer keeps its blocks, up to a limit,
// and tries again with every Flush. Beyond the limit it drops and counts whole blocks before
// they get a place in the log. So the log continues without a gap once there is room. In a file the writer keeps
// space for the end of the log: it ends in order on a full disk, and says how much is missing. Nothing panics.
type Writer struct {
	mu     sync.Mutex
	closed bool
	close  func() error
	row    columns.Row // the record being added
	limits Options
	open   openBlocks
	blocks *blockWriter
}

// nameMax is the longest name of a file on Linux, in bytes.
const nameMax = 255

// PartialName is the name of an unfinished file that will be renamed to path. It is in the same
// folder, so that the renaming needs no space, and ends in a tail that tells several writers
// apart. A long name is cut to make room for the tail.
func PartialName(path, tail string) string {
	dir, base := filepath.Split(path)
	tail = ".partial-" + tail
	if most := nameMax - len(tail); len(base) > most {
		cut := max(most, 0)
		for cut > 0 && !utf8.RuneStart(base[cut]) {
			cut--
		}
		base = base[:cut]
	}
	return dir + base + tail
}

// NewWriter writes a log to out, beginning at once. Messages call out by its name if it has a
// method Name, as files do.
func NewWriter(out io.Writer, o Options) (*Writer, error) {
	name := "the log"
	if f, ok := out.(interface{ Name() string }); ok {
		name = f.Name()
	}
	w := &Writer{limits: o.withDefaults()}
	blocks, err := newBlockWriter(out, name, w.limits)
	if err != nil {
		return nil, err
	}
	err = blocks.begin(out)
	w.goOn(blocks)
	return w, err
}

// goOn has further records go to a log that has begun.
func (w *Writer) goOn(blocks *blockWriter) {
	w.blocks = blocks
	w.open = openBlocks{to: blocks, limits: w.limits, byKey: make(map[blockKey]*openBlock)}
}

// NewFileWriter is NewWriter for a file that the writer closes at the end. The caller chooses the name
// of the unfinished file (PartialName) and renames it.
func NewFileWriter(f *os.File, o Options) (*Writer, error) {
	w, err := NewWriter(f, o)
	if err != nil {
		return nil, err
	}
	w.close = func() error { return blockfile.Close(f) }
	return w, nil
}

// Switch ends the log, as Close does, and goes on with a new one in f, which the writer closes at the
// end. Records that could not be written to the old log are counted in the new one. After an error
// the writer goes on with the old log.
func (w *Writer) Switch(f *os.File, end End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	next, err := newBlockWriter(f, f.Name(), w.limits)
	if err != nil {
		return err
	}
	if err := next.begin(f); err != nil {
		return err
	}
	old := w.blocks
	w.finish(end)
	old.discard()
	if w.close != nil {
		_ = w.close() // what did not reach the disk is missing when that log is read
	}
	w.goOn(next)
	w.close = func() error { return blockfile.Close(f) }
	if old.out.Err() != nil {
		next.lost = old.lost
	}
	return nil
}

// Add adds a record of any kind. r.AddTo(w) does the same; it needs no allocation of r where
// the type of r is known.
func (w *Writer) Add(r Record) { r.AddTo(w) }

// Calls locks the writer for a caller that adds many calls in a row, until Release: adding them
// takes no lock. Nothing else can be done with the writer meanwhile.
func (w *Writer) Calls() Calls {
	w.mu.Lock()
	return Calls{w}
}

// Calls is a writer that takes calls only; see [Writer.Calls].
type Calls struct{ w *Writer }

// Add adds a call.
func (h Calls) Add(c *Call) {
	if h.w.takes(KindCall) {
		c.fill(&h.w.row, &h.w.blocks.strings)
		h.w.open.addRow(KindCall, &h.w.row)
	}
}

// Release unlocks the writer.
func (h Calls) Release() { h.w.mu.Unlock() }

// begin takes the lock and reports whether a record can be added. If not, it is counted.
func (w *Writer) begin(k Kind) bool {
	w.mu.Lock()
	return w.takes(k)
}

// takes is begin where the lock is held.
func (w *Writer) takes(k Kind) bool {
	if !w.closed {
		return true
	}
	w.blocks.lost.addBatch(batch{kind: k, rows: 1})
	return false
}

// Err returns the error of the last write. It is nil again once a write has succeeded;
// Dropped has what was lost meanwhile.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocks.out.Err()
}

// Size returns the bytes of log written so far.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocks.out.Written()
}

// Dropped returns the number of records that will not reach the file, by kind, nil
// for none. Records that wait to be written do not count.
func (w *Writer) Dropped() map[Kind]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocks.lost.byKind()
}

// Flush writes all records added so far. If it returns nil they are in the file, and a reader
// finds them there, whatever happens to the recorder. An error is the error of the last write;
// the next Flush tries again.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.open.forgetEmpty()
		w.blocks.release()
		w.open.finishAll()
		w.blocks.indexFlushed()
		w.blocks.release()
	}
	return w.blocks.out.Err()
}

// Close writes the records that are left, the End record, the index and the footer, and
// closes the file. Where records were dropped or texts could not be kept, it adds a Lost
// record and marks the log as incomplete. A second Close does nothing.
func (w *Writer) Close(end End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.blocks.out.Err()
	}
	w.finish(end)
	w.closed = true
	w.open.discard()
	w.blocks.discard()
	if w.close != nil {
		if err := w.close(); err != nil && w.blocks.out.Err() == nil {
			w.blocks.out.Fail(err)
		}
	}
	return w.blocks.out.Err()
}

// finish writes the rest of the log.
func (w *Writer) finish(end End) {
	w.open.finishAll()
	w.blocks.release()
	w.blocks.releaseLast()
	w.blocks.out.Send()
	w.blocks.strings.useReserve()
	if n := w.blocks.lost.total(); n > 0 {
		missing := w.blocks.lost.time
		w.addLost(&Lost{Cause: LostLogWrite, Count: n, From: missing.from, To: missing.to})
		end.spoil("the log could not be written for a while")
	}
	if n := w.blocks.strings.lost; n > 0 {
		w.addLost(&Lost{Cause: LostStrings, Count: n})
		end.spoil("texts were too many or too long to be kept")
	}
	w.open.finishAll()
	end.fill(&w.row, &w.blocks.strings)
	w.open.addRow(KindEnd, &w.row)
	w.open.finishAll()
	w.blocks.finish()
	w.blocks.out.Send()
}

func (w *Writer) addLost(l *Lost) {
	l.fill(&w.row, &w.blocks.strings)
	w.open.addRow(KindLost, &w.row)
}

// spoil makes it the end of an incomplete log.
func (e *End) spoil(reason string) {
	if e.Reason != "" {
		reason = e.Reason + "; " + reason
	}
	e.Complete, e.Reason = 0, reason
}
