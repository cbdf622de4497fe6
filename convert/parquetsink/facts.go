package parquetsink

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"path"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

// logFacts are the facts of a log.
type logFacts struct {
	*timeline.Metadata
	run string
	id  string // the name of its files
}

// unranked is the partition of the processes of a log's host that have no rank.
func (l *logFacts) unranked() partition {
	return partition{run: l.run, host: cmp.Or(Plain(l.Values["host"]), UnknownHost), rank: NoRank, log: l}
}

// metadata begins a log. Its files have a name that is the same in each conversion, and that no other log has.
func (s *Sink) metadata(e *timeline.Metadata) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%s", e.Values["host"], e.Values["pid"], path.Base(e.Log))
	s.log = &logFacts{Metadata: e, run: s.runOf(e), id: fmt.Sprintf("%016x", h.Sum64())}
	s.logs = append(s.logs, s.log)
}

// runOf is the run that a log belongs to: the one that was asked for; else the identity of the run in the log; else the
// log's name.
func (s *Sink) runOf(e *timeline.Metadata) string {
	return Plain(cmp.Or(s.options.Run, e.Values["run"], strings.TrimSuffix(path.Base(e.Log), ".cudatrace")))
}

// jsonOf is a JSON object of variables.
func jsonOf(variables map[string]string) string {
	if len(variables) == 0 {
		return "{}"
	}
	b, err := json.Marshal(variables)
	if err != nil {
		panic(err) // a map of texts is always JSON
	}
	return string(b)
}

func (s *Sink) process(p *timeline.Process) {
	own := s.part(p)
	b := own.buffer(processTable)
	start, dur := int64(parquet.NullInt), int64(parquet.NullInt)
	if p.Start != 0 {
		start = s.unix(p.Start)
		if p.End != 0 {
			dur = int64(p.End - min(p.Start, p.End))
		}
	}
	b.int(start)
	b.int(dur)
	b.small(s.options.HostPID(p.PID))
	b.small(s.options.HostPID(p.PPID))
	name := p.Name // among the processes of a trace: with the rank, the host and the PID where they tell it from others
	if len(p.Args) > 0 {
		name = path.Base(p.Args[0])
	}
	b.text(name)
	b.text(strings.Join(p.Args, " "))
	b.text(p.Folder)
	b.text(p.Exit)
	local := uint32(null)
	if p.Rank.Known {
		local = p.Rank.Local
	}
	b.small(local)
	b.known(p.Rank.Of)
	b.text(p.Runtime)
	b.text(p.NCCL)
	b.text(jsonOf(p.Variables))
	s.end(b)
}

// A deviceKey is a row of devices.
type deviceKey struct{ gpu, pid uint32 }

// device adds the GPU of a context.
func (p *part) device(c *timeline.Context) {
	p.deviceRow(c.GPU, p.sink.options.HostPID(c.Process.PID), c.Device)
}

func (p *part) deviceRow(gpu, pid, device uint32) {
	s := p.sink
	key := deviceKey{gpu, pid}
	if p.gpus[key] || int(gpu) >= len(s.gpus) {
		return
	}
	p.gpus[key] = true
	g, b := &s.gpus[gpu], p.buffer(deviceTable)
	b.small(gpu)
	b.small(pid)
	b.small(device)
	b.text(g.UUID)
	b.text(g.Name)
	capability := ""
	if g.Major != 0 {
		capability = fmt.Sprintf("%d.%d", g.Major, g.Minor)
	}
	b.text(capability)
	b.known(g.Multiprocessors)
	b.knownWide(g.Memory)
	b.knownWide(g.Bandwidth)
	b.knownWide(uint64(g.Clock))
	b.text(g.Link.Address)
	s.end(b)
}

// runs adds a row for each log in each of its partitions, of a part of the logs for those that have any.
func (s *Sink) runs() {
	had := make(map[*logFacts]bool)
	for _, p := range s.order {
		had[p.log] = true
		p.run()
	}
	for _, l := range s.logs {
		if !had[l] && !s.options.Part {
			s.partAt(l.unranked()).run()
		}
	}
}

func (p *part) run() {
	s := p.sink
	l, b := p.log, p.buffer(runTable)
	o := s.options.Outcome(l.Log)
	b.int(s.unix(o.First))
	b.uint(o.Last - min(o.First, o.Last))
	b.int(s.unix(o.First) / 1000)
	b.small(Version)
	b.text(path.Base(l.Log))
	b.text(l.Values["program"])
	b.text(strings.Join(l.Args, " "))
	for _, key := range []string{"host", "git_revision", "git_branch", "git_remote", "nvidia_driver"} {
		b.text(l.Values[key])
	}
	b.text(l.Driver)
	b.text(l.CUPTI)
	for _, key := range []string{"kernel", "cudatrace", "options"} {
		b.text(l.Values[key])
	}
	b.text(jsonOf(l.Variables))
	status := int64(o.ExitStatus)
	if status < 0 || status > math.MaxInt32 {
		status = parquet.NullInt
	}
	b.int(status)
	b.flag(o.Complete)
	b.text(strings.Join(o.Reasons, " | "))
	b.uint(o.Lost)
	s.end(b)
}
