package parquetsink

import (
	"io"
	"strconv"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/parquet"
)

// path is the name of a table's file.
func (p *part) path(t *Table) string {
	return t.Name + "/run=" + p.Run + "/host=" + p.Host + "/rank=" + p.Rank + "/" + p.Log + ".parquet"
}

// A part has the rows of a partition.
type part struct {
	*joined.Partition
	to      *Writer
	buffers []*buffer // by table; nil before the first row
	writers []*parquet.Writer
}

// buffer returns the rows of a table.
func (p *part) buffer(table int) *buffer {
	b := p.buffers[table]
	if b == nil {
		b = newBuffer(&Tables[table], &p.to.memory)
		b.log = p.Log
		p.buffers[table] = b
	}
	return b
}

// flush hands the rows of a table over as a row group. They are sorted and encoded on other goroutines.
func (p *part) flush(table int) error {
	b, to := p.buffers[table], p.to
	if b == nil || b.rows == 0 {
		return nil
	}
	w, err := p.writer(table)
	if err != nil {
		return err
	}
	p.buffers[table] = nil
	to.memory.leave(b.size())
	w.Group(to.encoders, parquet.RowGroup{
		Rows:    b.rows,
		Prepare: func(worker int) { b.sort(&to.scratch[worker]) },
		Values: func(worker, column int) parquet.Values {
			v := b.values(column, &to.scratch[worker])
			b.free(column)
			return v
		},
	})
	return nil
}

// writer returns the writer of a table's file.
func (p *part) writer(table int) (*parquet.Writer, error) {
	if p.writers[table] == nil {
		t := &Tables[table]
		out, err := p.to.create(p.path(t))
		if err != nil {
			return nil, err
		}
		p.writers[table] = newWriter(out, t)
	}
	return p.writers[table], nil
}

func newWriter(out io.Writer, t *Table) *parquet.Writer {
	o := parquet.Options{
		CreatedBy: "cudatrace", Facts: []parquet.Fact{
			{Key: "cudatrace.table", Value: t.Name}, {Key: "cudatrace.schema_version", Value: strconv.Itoa(joined.Version)},
		},
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		o.Columns = append(o.Columns, c.Column)
		if c.Name == sorted {
			o.Sorted = sorted
		}
	}
	return parquet.NewWriter(out, o)
}

// rest hands the rest of the rows over.
func (p *part) rest() error {
	for table := range p.buffers {
		if err := p.flush(table); err != nil {
			return err
		}
	}
	return nil
}

// close writes the ends of the files. All rows have been written.
func (p *part) close() error {
	for _, w := range p.writers {
		if w != nil {
			if err := w.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
