package parquetsink

import (
	"cmp"
	"io"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/parquet"
)

const (
	// Manifest is the file in the folder of tables that lists the others. Engines leave out names that begin with '_'.
	Manifest = "_cudatrace_files.txt"

	// groupRows is the number of rows at which a row group is full.
	groupRows = 1_000_000

	// Budget bounds the rows that wait in all tables together, and those that are being encoded, in bytes. When three
	// quarters wait, the largest buffer becomes a row group that is smaller than others. How fast rows are encoded decides
	// nothing: the files of a log are always the same.
	Budget = 128 << 20
)

// A Writer writes the tables.
type Writer struct {
	create   func(path string) (io.Writer, error)
	budget   int
	encoders *parquet.Encoders
	scratch  []scratch // of each worker
	memory   memory
	parts    []*part // by the number of their partition
}

// New returns a writer of files that create creates, by their path with slashes. The rows that wait and those that are
// being encoded take at most budget bytes, mostly [Budget].
func New(budget int, create func(path string) (io.Writer, error)) *Writer {
	e := parquet.NewEncoders()
	w := &Writer{create: create, budget: budget, encoders: e, scratch: make([]scratch, e.Workers())}
	w.memory.changed.L = &w.memory.turn
	return w
}

// Take takes rows.
func (w *Writer) Take(of *joined.Partition, rows joined.Batch) {
	if of.Number == len(w.parts) {
		w.parts = append(w.parts, &part{
			Partition: of, to: w, buffers: make([]*buffer, len(Tables)), writers: make([]*parquet.Writer, len(Tables)),
		})
	}
	w.parts[of.Number].buffer(rows.Table).add(rows)
}

// Check hands over the row groups that are full, and the largest ones while too many rows wait. Then it waits until
// those that are being encoded leave room.
func (w *Writer) Check() error {
	for {
		largest, table, bytes, err := waiting(w.parts)
		if err != nil {
			return err
		}
		if bytes <= w.budget*3/4 {
			w.memory.atMost(w.budget - bytes)
			return w.encoders.Err()
		}
		if err := largest.flush(table); err != nil {
			return err
		}
	}
}

// waiting hands over the row groups that are full. It returns the largest other one, and the bytes of all others.
func waiting(parts []*part) (largest *part, table, all int, err error) {
	most := 0
	for _, p := range parts {
		for i, b := range p.buffers {
			if b == nil || b.rows == 0 {
				continue
			}
			if b.rows >= groupRows {
				if err := p.flush(i); err != nil {
					return nil, 0, 0, err
				}
				continue
			}
			size := b.size()
			if all += size; size > most {
				largest, table, most = p, i, size
			}
		}
	}
	return largest, table, all, nil
}

// End writes the rest of a complete timeline. Nothing is written after it.
func (w *Writer) End(err error) error {
	var own error
	if err == nil {
		for _, p := range w.parts {
			own = cmp.Or(own, p.rest())
		}
	}
	if failed := w.encoders.Wait(); err != nil || own != nil || failed != nil {
		return cmp.Or(own, failed)
	}
	for _, p := range w.parts {
		if err := p.close(); err != nil {
			return err
		}
	}
	return nil
}
