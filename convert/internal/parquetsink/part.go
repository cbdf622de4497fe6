package parquetsink

import (
	"cmp"
	"io"
	"strconv"
	"strings"

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
	buffers []*buffer // by table; nil before the first row
	writers []*parquet.Writer
	calls   int64 // number of the last call
	gpus    map[deviceKey]bool

	stacks    map[*timeline.Python]bool // those with a row
	natives   map[*timeline.Native]bool // likewise
	callers   map[*timeline.Caller]string
	paths     map[*timeline.RangeStack]string
	sequences map[*timeline.Stream]int64
}

// buffer returns the rows of a table.
func (p *part) buffer(table int) *buffer {
	b := p.buffers[table]
	if b == nil {
		b = newBuffer(&Tables[table], &p.sink.memory)
		b.log = p.log.id
		p.buffers[table] = b
	}
	return b
}

// flush hands the rows of a table over as a row group. They are sorted and encoded on other goroutines.
func (p *part) flush(table int) error {
	b, s := p.buffers[table], p.sink
	if b == nil || b.rows == 0 {
		return nil
	}
	w, err := p.writer(table)
	if err != nil {
		return err
	}
	p.buffers[table] = nil
	clear(p.paths) // bounded by the rows of a row group
	s.memory.leave(b.size())
	w.Group(s.encoders, parquet.RowGroup{
		Rows:    b.rows,
		Prepare: func(worker int) { b.sort(&s.scratch[worker]) },
		Values: func(worker, column int) parquet.Values {
			v := b.values(column, &s.scratch[worker])
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
