package convert

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// versions returns the CUDA version that the driver supports, and the version of libcupti; 0 for
// those that are not known.
func (l *log) versions() (driver timeline.CUDAVersion, cupti timeline.CUPTIVersion) {
	for _, x := range l.catalog.Outcome.CUPTI {
		cupti = cmp.Or(timeline.CUPTIVersion(x.Version), cupti)
		driver = cmp.Or(timeline.CUDAVersion(x.DriverVersion), driver)
	}
	return driver, cupti
}

// metadata returns the facts of a log.
func (l *log) metadata() *timeline.Metadata {
	m := &timeline.Metadata{Log: l.Name, Values: make(map[string]string)}
	for key, value := range l.catalog.Meta {
		switch key {
		case tracelog.MetaArgs:
			m.Args = read.SplitArgs(value)
		case tracelog.MetaEnvironment:
			m.Variables = read.SplitVariables(value)
		default:
			m.Values[key] = value
		}
	}
	if l.aligned != "" {
		m.Values["clock"] = l.aligned
	}
	m.Driver, m.CUPTI = l.versions()
	if run := l.run(m.Variables); run != "" {
		m.Values[tracelog.MetaRun] = run
	}
	return m
}

// run is the identity of the run: the name that a person gave it; or else that of the processes, if all have
// the same; or else that of the recorder, which has these variables.
func (l *log) run(variables map[string]string) string {
	if name := l.catalog.Meta[tracelog.MetaRun]; name != "" {
		return name
	}
	return cmp.Or(l.catalog.Processes.Run(), ranks.Run(variables))
}

// describeMetadata adds the facts of a log to its summary.
func (l *log) describeMetadata(s *Summary) {
	m := l.metadata()
	s.Driver, s.CUPTI = m.Driver.String(), m.CUPTI.String()
	s.DriverRelease, s.Folder, s.Options = m.Values[tracelog.MetaDriver], m.Values[tracelog.MetaCwd],
		m.Values[tracelog.MetaOptions]
	s.Git = Git{m.Values[tracelog.MetaRevision], m.Values[tracelog.MetaBranch], m.Values[tracelog.MetaRemote]}
	s.Run, s.Variables = m.Values[tracelog.MetaRun], known(m.Variables)
}

// known makes variables an object of JSON where there are none.
func known(variables map[string]string) map[string]string {
	if variables == nil {
		return map[string]string{}
	}
	return variables
}

func rankInfo(r timeline.Rank) *RankInfo {
	if !r.Known {
		return nil
	}
	return &RankInfo{Rank: r.Number, LocalRank: r.Local, WorldSize: r.Of}
}

// addRank adds the rank of a process.
func (s *Summary) addRank(r timeline.Rank) {
	if !r.Known {
		return
	}
	if i, found := slices.BinarySearch(s.Ranks, r.Number); !found {
		s.Ranks = slices.Insert(s.Ranks, i, r.Number)
	}
	s.WorldSize = max(s.WorldSize, r.Of)
}

// Identify reads of which run a log is. Damage is for another reading to report.
func Identify(of Log) (i Identity, err error) {
	l := &log{
		Log: of, filter: &tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindMeta, tracelog.KindProcess, tracelog.KindClock,
			tracelog.KindEnd}},
	}
	if err := l.read(func(float64) {}); err != nil {
		return i, err
	}
	var s Summary
	for _, pid := range l.catalog.Processes.PIDs {
		s.addRank(l.catalog.Processes.Place(pid))
	}
	i = Identity{
		Name: of.Name, Run: l.run(read.SplitVariables(l.catalog.Meta[tracelog.MetaEnvironment])), Ranks: s.Ranks,
		World: s.WorldSize,
	}
	if k := &l.catalog.Clocks; k.Known {
		i.Aligned, i.Begin, i.End = true, l.catalog.First()+uint64(k.Ahead), l.catalog.Last()+uint64(k.Ahead)
	}
	return i, nil
}
