package convert

import (
	"fmt"
	"io"

	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/parquetsink"
)

const (
	// TablesSuffix is the suffix of the folder of tables.
	TablesSuffix = ".parquet"

	// TablesManifest is the file in the folder that lists the others. Engines leave out names that begin with '_'.
	TablesManifest = "_cudatrace_files.txt"

	// mostTables bounds the files of tables, all of which are open until the last one is whole.
	mostTables = 8192
)

var errTables = fmt.Errorf("it would be more than %d files, nine for each process with a rank: convert fewer logs at a time", mostTables)

// IsRun says whether a name can be that of a run: engines take it out of the name of a folder.
func IsRun(name string) bool { return name != "" && name == parquetsink.Plain(name) }

// tables writes the tables of all logs.
func (c *conversion) tables(o TraceOptions, create output.Creator) ([]Summary, error) {
	files := 0
	bound := c.bound(Parquet)
	return c.watch(parquetsink.New(parquetsink.Options{
		Run:     o.Run,
		HostPID: func(number uint32) uint32 { return number & (1<<pidBits - 1) },
		Outcome: c.outcome,
		Create: func(path string) (io.Writer, error) {
			if files++; files > mostTables {
				return nil, errTables
			}
			w, err := create(path)
			if err != nil {
				return nil, err
			}
			return bound(w), nil
		},
	}), 0)
}

// outcome says how the recording of a log went. All of the log has been read.
func (c *conversion) outcome(name string) (o parquetsink.Outcome) {
	for _, l := range c.logs {
		if l.Name == name {
			s := c.summary(l)
			o = parquetsink.Outcome{First: l.clock.At(l.catalog.First()), ExitStatus: s.ExitStatus, Complete: s.Complete, Reasons: s.Reasons}
			o.Last = o.First + s.DurationNS
			for _, n := range s.Lost {
				o.Lost += n
			}
		}
	}
	return o
}
