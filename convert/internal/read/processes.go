package read

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Processes are the processes of a log.
type Processes struct {
	PIDs  []uint32 // in the order of first sight
	byPID map[uint32]*ProcessRecords
	texts int // bytes of the names, arguments and environments of programs

	environments map[string]*environment // by their text in the log
}

func newProcesses() Processes {
	return Processes{byPID: make(map[uint32]*ProcessRecords), environments: make(map[string]*environment)}
}

// ProcessRecords are what a log records of one PID.
type ProcessRecords struct {
	PID      uint32
	Programs Programs // set by Resolve
	kinds    uint64   // kinds of event that the process has, see kindBit
	records  []tracelog.Process
	resolved int // those of records that are in Programs, by Update
	named    int // those of symbols that are in Programs, by Update
	symbols  []tracelog.Symbol
}

// A Program is one program that ran under a PID. CUPTI restarts its IDs with each program.
type Program struct {
	PID, PPID uint32
	Start     uint64
	Name      string
	Args      []string
	timeline.Circumstances

	// Until is the time at which the recorder met the program that replaced this one by
	// exec. Cut is the entry of the call in which the recorder met that program. Both are 0
	// for the last program.
	Until, Cut uint64
	Handles    *KernelHandles
}

// Programs are the programs of one PID, by time. There is at least one.
type Programs []*Program

// At returns the index of the program that ran at a time.
func (p Programs) At(t uint64) int {
	if len(p) == 1 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(p[:len(p)-1], t, func(g *Program, t uint64) int {
		if g.Until <= t {
			return -1
		}
		return 1
	})
	return i
}

// Get returns the process with a PID, nil for a PID that is not in the log.
func (l *Processes) Get(pid uint32) *ProcessRecords { return l.byPID[pid] }

func (l *Processes) get(pid uint32) *ProcessRecords {
	p := l.byPID[pid]
	if p == nil {
		p = &ProcessRecords{PID: pid}
		l.byPID[pid] = p
		l.PIDs = append(l.PIDs, pid)
	}
	return p
}

// learn reads a row. It returns the time that the record states.
func (l *Processes) learn(b *tracelog.Block, i int) (at uint64) {
	if b.Kind == tracelog.KindSymbol {
		var x tracelog.Symbol
		x.Read(b, i)
		p := l.get(x.PID)
		p.symbols = append(p.symbols, x)
		return 0
	}
	var r tracelog.Process
	r.Read(b, i)
	p := l.get(r.PID)
	p.records = append(p.records, r)
	l.texts += len(r.Exe) + len(r.Args) + len(r.Cwd) + len(r.Cudart) + len(r.NCCL)
	l.environment(r.Environment)
	return r.Start
}

// seen notes that a process has events of a kind.
func (l *Processes) seen(k tracelog.Kind, pid uint32) { l.get(pid).kinds |= kindBit(k) }

func kindBit(k tracelog.Kind) uint64 { return 1 << (k % 64) }

// Has reports whether the process has events of any of these kinds.
func (p *ProcessRecords) Has(kinds ...tracelog.Kind) bool {
	for _, k := range kinds {
		if p.kinds&kindBit(k) != 0 {
			return true
		}
	}
	return false
}

// Have reports whether any process has events of a kind.
func (l *Processes) Have(k tracelog.Kind) bool {
	for _, p := range l.byPID {
		if p.Has(k) {
			return true
		}
	}
	return false
}

// HasWork reports whether the process has GPU work.
func (p *ProcessRecords) HasWork() bool { return p.Has(kindsOfWork...) }

// Count is the number of programs of all processes.
func (l *Processes) Count() (n int) {
	for _, p := range l.byPID {
		n += max(len(p.records), 1)
	}
	return n
}

// Resolve finds the programs of all processes. It opens the log once more where a process ran
// several programs. contents are those of the log.
func (l *Processes) Resolve(open func() (*tracelog.Reader, error), contents *tracelog.Contents) error {
	var several []uint32
	for _, pid := range l.PIDs {
		p := l.byPID[pid]
		if l.split(p); len(p.Programs) > 1 {
			several = append(several, pid)
		}
	}
	if len(several) == 0 {
		return nil
	}
	return l.cut(several, open, contents)
}

// maxArgs bounds the arguments of a program that are told apart.
const maxArgs = 1 << 14

// SplitArgs returns the arguments of a program, which a log holds with a zero byte between them.
func SplitArgs(args string) []string { return strings.SplitN(args, "\x00", maxArgs) }

// split finds the programs of a process.
func (l *Processes) split(p *ProcessRecords) {
	slices.SortStableFunc(p.records, func(a, b tracelog.Process) int { return cmp.Compare(a.Start, b.Start) })
	p.records = slices.CompactFunc(p.records, func(a, b tracelog.Process) bool { return a.Start == b.Start })
	p.Programs = Programs{{PID: p.PID}}
	for i := range p.records {
		r := &p.records[i]
		if i > 0 {
			last := p.Programs[i-1]
			last.Until, last.Cut = r.Start, r.Start
			p.Programs = append(p.Programs, &Program{PID: p.PID})
		}
		l.describe(p.Programs[i], r)
	}
	symbols := make([][]tracelog.Symbol, len(p.Programs))
	for _, x := range p.symbols {
		i := p.Programs.At(x.Time)
		symbols[i] = append(symbols[i], x)
	}
	for i, g := range p.Programs {
		g.Handles = newKernelHandles(symbols[i])
	}
}

// Update finds the programs of a log that is followed: those of processes that are new, and those that
// processes have run since by exec. A program that is there stays as it is, but for its end.
func (l *Processes) Update() {
	for _, pid := range l.PIDs {
		p := l.byPID[pid]
		if p.Programs == nil {
			l.split(p)
		} else {
			l.extend(p)
			p.name()
		}
		p.resolved, p.named = len(p.records), len(p.symbols)
	}
}

// name adds the latest symbols of a process to its programs.
func (p *ProcessRecords) name() {
	for _, x := range p.symbols[p.named:] {
		g := p.Programs[p.Programs.At(x.Time)]
		if g.Handles == nil {
			g.Handles = newKernelHandles([]tracelog.Symbol{x})
			continue
		}
		g.Handles.byHandle[x.Handle] = append(g.Handles.byHandle[x.Handle], x)
	}
}

// extend adds the programs of the latest records of a process.
func (l *Processes) extend(p *ProcessRecords) {
	for i := p.resolved; i < len(p.records); i++ {
		r := &p.records[i]
		last := p.Programs[len(p.Programs)-1]
		if r.Start <= last.Start {
			continue // told already
		}
		if last.Start == 0 { // events of the process came before its record
			l.describe(last, r)
			continue
		}
		last.Until, last.Cut = r.Start, r.Start
		g := &Program{PID: p.PID, Handles: newKernelHandles(nil)}
		l.describe(g, r)
		p.Programs = append(p.Programs, g)
	}
}

// describe takes what a record says of a program.
func (l *Processes) describe(g *Program, r *tracelog.Process) {
	g.PPID, g.Start, g.Args = r.PPID, r.Start, SplitArgs(r.Args)
	g.Name = r.Exe[strings.LastIndexByte(r.Exe, '/')+1:]
	g.Circumstances = l.circumstances(r)
}

// cut finds, for each program that was replaced by exec, the call in which the recorder met the
// next program. That call was entered before Until and returned after it.
func (l *Processes) cut(pids []uint32, open func() (*tracelog.Reader, error), contents *tracelog.Contents) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	f := tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindCall}, From: timeline.Never}
	for _, pid := range pids {
		programs := l.byPID[pid].Programs
		f.From = min(f.From, programs[0].Until)
		f.To = max(f.To, programs[len(programs)-2].Until)
	}
	if err := r.Reread(contents, f); err != nil {
		return err
	}
	for r.Next() {
		l.cutAt(r.Block())
	}
	return r.Err()
}

// cutAt moves the cuts of programs to the calls of a block.
func (l *Processes) cutAt(b *tracelog.Block) {
	pids, enters, durs := b.Column("pid"), b.Column("enter"), b.Column("dur")
	for i := range b.N {
		p := l.byPID[uint32(pids.At(i))]
		if len(p.Programs) == 1 {
			continue
		}
		enter := enters.At(i)
		end := timeline.End(enter, durs.At(i))
		if enter == 0 || end == timeline.Never {
			continue // not known
		}
		if at := p.Programs.At(end); at > 0 {
			before := p.Programs[at-1]
			before.Cut = min(before.Cut, enter)
		}
	}
}
