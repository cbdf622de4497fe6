package convert

import (
	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Log is a log to convert.
type Log struct {
	Name string                           // its name in messages; its path, if it is at one
	Open func() (*tracelog.Reader, error) // a conversion opens it several times
}

// Path returns the log at a path.
func Path(path string) Log {
	return Log{Name: path, Open: func() (*tracelog.Reader, error) { return tracelog.Open(path) }}
}

// A log is a log during its conversion.
type log struct {
	Log
	catalog   *read.Catalog
	joiner    *join.Joiner // until the log is joined
	found     join.Found
	joined    []join.ProcessCounts
	damage    *tracelog.Damage
	filter    *tracelog.Filter
	processes *read.Processes // all of them, where the filter leaves some out; nil before they are looked for
	all       uint64          // events in the whole log, with a filter; 0 when not known
	began     uint64          // its first GPU work, with a filter; 0 when not known
	size      int64           // bytes
	clock     *timeline.Clock // converts its times to those of the timeline
	alignment *Alignment
	aligned   string // how its clock was aligned with those of other logs
	chosen    *selection.Selection
	threads   read.Threads // that the filter wants
	offset    uint32       // added to its PIDs and TIDs
	hangs     []string     // what its unfinished calls waited for

	collectives join.CollectiveBounds // what was beyond them
}

// read does the first reading of one log.
func (l *log) read(progress func(share float64)) error {
	r, err := l.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	l.catalog = read.NewCatalog(l.filter)
	l.catalog.Began = l.began
	if l.filter != nil {
		if err := r.Select(*l.filter); err != nil {
			return err
		}
	}
	r.Parallel(2)
	err = l.catalog.Read(r, progress)
	damage := *r.Damage() // a copy, which does not keep the reader
	l.damage, l.size = &damage, r.Size()
	return err
}
