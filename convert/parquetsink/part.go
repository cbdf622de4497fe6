package parquetsink

import (
	"cmp"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

// A partition is a place in the tables.
type partition struct {
	run, host, rank string
	log             *logFacts
}

// NoRank is the rank of processes that have none.
const NoRank = "-1"

// UnknownHost is the host of processes of which the log does not tell it.
const UnknownHost = "unknown"

// Plain makes a name one that means the same to every engine, object store and shell: characters other than letters,
// digits, '.', '-' and '_' become '-'.
func Plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name)
	return name[:min(len(name), longestName)]
}

// longestName is the length of the longest value of a partition.
const longestName = 128

// partitionOf returns the partition of a process.
func (s *Sink) partitionOf(p *timeline.Process) partition {
	at := partition{run: s.log.run, host: cmp.Or(Plain(p.Host), UnknownHost), rank: NoRank, log: s.log}
	if p.Rank.Known {
		at.rank = strconv.FormatUint(uint64(p.Rank.Number), 10)
	}
	return at
}

// path is the name of a table's file.
func (p *partition) path(t *Table) string {
	return t.Name + "/run=" + p.run + "/host=" + p.host + "/rank=" + p.rank + "/" + p.log.id + ".parquet"
}

// A part has the rows of a partition.
type part struct {
	partition
	sink    *Sink
	buffers [tables]*buffer // nil before the first row
	writers [tables]*parquet.Writer
	calls   int64   // number of the last call
	arrows  []arrow // of the calls that are being added
	gpus    map[deviceKey]bool

	shapes    map[*timeline.Shape]*shapeTexts
	callers   map[*timeline.Caller]string
	paths     map[*timeline.RangeStack]string
	sequences map[*timeline.Stream]int64
}

// buffer returns the rows of a table.
func (p *part) buffer(table int) *buffer {
	b := p.buffers[table]
	if b == nil {
		b = newBuffer(&Tables[table], &p.sink.memory)
		p.buffers[table] = b
	}
	return b
}

// flush writes the rows of a table as a row group.
func (p *part) flush(table int) error {
	if b := p.buffers[table]; b != nil && b.rows > 0 {
		return p.write(table, b.order())
	}
	return nil
}

// write writes the rows of a table in an order.
func (p *part) write(table int, order []uint32) error {
	b, s := p.buffers[table], p.sink
	w, err := p.writer(table)
	if err != nil {
		return err
	}
	err = w.Group(s.encoders, b.rows, func(worker, column int) parquet.Values { return b.values(column, order, &s.scratch[worker]) })
	b.clear()
	p.forget(table)
	return err
}

// forget forgets the texts' numbers in a buffer without rows.
func (p *part) forget(table int) {
	if table == workTable {
		clear(p.shapes)
	}
	clear(p.paths) // bounded by the rows of a row group
}

// writer returns the writer of a table's file.
func (p *part) writer(table int) (*parquet.Writer, error) {
	if p.writers[table] == nil {
		t := &Tables[table]
		out, err := p.sink.options.Create(p.path(t))
		if err != nil {
			return nil, err
		}
		p.writers[table] = newWriter(out, t)
	}
	return p.writers[table], nil
}

func newWriter(out io.Writer, t *Table) *parquet.Writer {
	o := parquet.Options{CreatedBy: "cudatrace", Facts: []parquet.Fact{{Key: "cudatrace.table", Value: t.Name}, {Key: "cudatrace.schema_version", Value: strconv.Itoa(Version)}}}
	for i := range t.Columns {
		c := &t.Columns[i]
		o.Columns = append(o.Columns, parquet.Column{Name: c.Name, Type: c.Type, Nullable: c.Null != ""})
		if c.Name == sorted {
			o.Sorted = sorted
		}
	}
	return parquet.NewWriter(out, o)
}

// close writes what is left, and the ends of the files. The tables are sorted at the same time.
func (p *part) close() error {
	var orders [tables][]uint32
	var sorting sync.WaitGroup
	for table, b := range p.buffers {
		if b != nil && b.rows > 0 {
			sorting.Go(func() { orders[table] = b.order() })
		}
	}
	sorting.Wait()
	for table, b := range p.buffers {
		if b != nil && b.rows > 0 {
			if err := p.write(table, orders[table]); err != nil {
				return err
			}
		}
		if w := p.writers[table]; w != nil {
			if err := w.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
