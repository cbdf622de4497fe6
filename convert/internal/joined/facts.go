package joined

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"path"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// logFacts are the facts of a log.
type logFacts struct {
	*timeline.Metadata
	run string
	id  string // the name of its files
}

// unranked is the partition of the processes of a log's host that have no rank.
func (l *logFacts) unranked() partKey {
	return partKey{run: l.run, host: cmp.Or(Plain(l.Values["host"]), UnknownHost), rank: NoRank, log: l}
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
	r := Process{
		Start: NoNumber, Dur: NoNumber, PID: s.options.HostPID(p.PID), PPID: s.options.HostPID(p.PPID),
		Name: p.Name, // among the processes of a trace: with the rank, the host and the PID where they tell it from others
		Args: strings.Join(p.Args, " "), Cwd: p.Folder, Exit: p.Exit, LocalRank: None, WorldSize: known(p.Rank.Of),
		CUDARuntime: p.Runtime, NCCL: p.NCCL, Environment: jsonOf(p.Variables),
	}
	if p.Start != 0 {
		r.Start = s.unix(p.Start)
		if p.End != 0 {
			r.Dur = int64(p.End - min(p.Start, p.End))
		}
	}
	if len(p.Args) > 0 {
		r.Name = path.Base(p.Args[0])
	}
	if p.Rank.Known {
		r.LocalRank = p.Rank.Local
	}
	row(s.part(p), r)
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
	g := &s.gpus[gpu]
	r := Device{GPU: gpu, PID: pid, Device: device, UUID: g.UUID, Name: g.Name, Multiprocessors: known(g.Multiprocessors),
		MemoryBytes: knownWide(g.Memory), MemoryBandwidth: knownWide(g.Bandwidth), Clock: knownWide(uint64(g.Clock)),
		PCI: g.Link.Address}
	if g.Major != 0 {
		r.ComputeCapability = fmt.Sprintf("%d.%d", g.Major, g.Minor)
	}
	row(p, r)
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
	s, l := p.sink, p.log
	o, value := s.options.Outcome(l.Log), l.Values
	r := Run{
		Start: s.unix(o.First), Dur: bounded(o.Last - min(o.First, o.Last)), Began: Moment(s.unix(o.First) / 1000),
		SchemaVersion: Version,
		LogName:       path.Base(l.Log), Program: value["program"], Args: strings.Join(l.Args, " "), Hostname: value["host"],
		GitRevision: value["git_revision"], GitBranch: value["git_branch"], GitRemote: value["git_remote"],
		NvidiaDriver: value["nvidia_driver"], DriverVersion: l.Driver.String(), CUPTIVersion: l.CUPTI.String(),
		Kernel:    value["kernel"],
		Cudatrace: value["cudatrace"], Options: value["options"], Environment: jsonOf(l.Variables),
		ExitStatus: int64(o.ExitStatus), Complete: o.Complete, Reasons: strings.Join(o.Reasons, " | "), Lost: bounded(o.Lost),
	}
	if o.ExitStatus < 0 || o.ExitStatus > math.MaxInt32 {
		r.ExitStatus = NoNumber
	}
	row(p, r)
}
