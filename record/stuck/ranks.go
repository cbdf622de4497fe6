package stuck

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// version is the version of the JSON form of a report.
const version = 1

// fileMost bounds the bytes of a report.
const fileMost = 256 << 20

// ReadFile reads a report that was printed as JSON.
func ReadFile(path string) (*Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %s", path, errno.Words(err))
	}
	defer f.Close()
	in := &io.LimitedReader{R: f, N: fileMost}
	decoder := json.NewDecoder(in)
	var r Report
	switch err := decoder.Decode(&r); {
	case in.N <= 0:
		return nil, fmt.Errorf("%s is longer than %s: it is no report of stuck", path, figures.Bytes(uint64(fileMost)))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%s is empty or cut off: print it again", path)
	case err != nil || r.Stuck == 0:
		return nil, fmt.Errorf("%s is no report of stuck in JSON: cudatrace stuck --format json -p PID prints one", path)
	case r.Stuck != version:
		return nil, fmt.Errorf("%s is a report of version %d, and only version %d is known: use the cudatrace that printed it", path, r.Stuck, version)
	}
	return &r, nil
}

// A Member is a process of a distributed program.
type Member struct {
	Rank  uint32 `json:"rank"`
	Host  string `json:"host"`
	taken uint64
	*ProcessReport
}

// A Program is a distributed program, as reports of its processes have it.
type Program struct {
	Version int      `json:"version"`
	Verdict Verdict  `json:"verdict"`
	Members []Member `json:"ranks"`             // by rank; each also has the members of a process of `stuck -p`
	Of      uint32   `json:"world"`             // ranks in all, 0 if unknown
	Missing []uint32 `json:"missing,omitempty"` // ranks without a report
	Notes   []string `json:"notes,omitempty"`
}

// Join joins the reports of the ranks of a program.
func Join(reports []*Report) (*Program, error) {
	p := &Program{Version: version}
	newest := map[uint32]uint64{}
	without := 0
	for _, r := range reports {
		for i := range r.Processes {
			one := &r.Processes[i]
			if one.Rank == nil {
				without++
				continue
			}
			p.Of = max(p.Of, one.World)
			m := Member{*one.Rank, r.Host, r.Taken, one}
			at := slices.IndexFunc(p.Members, func(m Member) bool { return m.Rank == *one.Rank })
			switch {
			case at < 0:
				p.Members = append(p.Members, m)
			case r.Taken > newest[m.Rank]:
				p.Members[at] = m
				fallthrough
			default:
				p.Notes = append(p.Notes, fmt.Sprintf("rank %d has several reports: the newest one counts", m.Rank))
			}
			newest[m.Rank] = max(newest[m.Rank], r.Taken)
		}
	}
	if len(p.Members) == 0 {
		return nil, errors.New("no process of these reports has a rank: launchers set it by RANK and WORLD_SIZE, or as MPI " +
			"and Slurm do")
	}
	if without > 0 {
		p.Notes = append(p.Notes, figures.Count(without, "process", "processes")+" without a rank left out")
	}
	slices.SortFunc(p.Members, func(a, b Member) int { return cmp.Compare(a.Rank, b.Rank) })
	for rank := range min(p.Of, ranksMost) {
		if _, there := slices.BinarySearchFunc(p.Members, rank,
			func(m Member, r uint32) int { return cmp.Compare(m.Rank, r) }); !there {
			p.Missing = append(p.Missing, rank)
		}
	}
	p.Verdict = p.judge()
	return p, nil
}

// ranksMost bounds the ranks that may be missing.
const ranksMost = 1 << 20

// judge says which rank the others wait for.
func (p *Program) judge() Verdict {
	if v, ok := p.atCollectives(); ok {
		return v
	}
	for _, m := range p.Members {
		if m.Verdict.Outcome == Stuck {
			return Verdict{Outcome: Stuck, Text: fmt.Sprintf("rank %d: %s", m.Rank, m.Verdict.Text)}
		}
	}
	if v, ok := p.elsewhere(); ok {
		return v
	}
	if len(p.Missing) > 0 {
		return Verdict{Outcome: Unknown, Text: "there is no report of " + ranks.Named(p.Missing)}
	}
	for _, o := range []Outcome{Unknown, Waiting} {
		var of []uint32
		for _, m := range p.Members {
			if m.Verdict.Outcome == o {
				of = append(of, m.Rank)
			}
		}
		if len(of) == len(p.Members) || o == Unknown && len(of) > 0 {
			return Verdict{o, fmt.Sprintf("%s: %s", ranks.Named(of), p.find(of[0]).Verdict.Text), 0}
		}
	}
	return Verdict{Outcome: Moving, Text: "ranks move"}
}

func (p *Program) find(rank uint32) *Member {
	i, _ := slices.BinarySearchFunc(p.Members, rank, func(m Member, r uint32) int { return cmp.Compare(m.Rank, r) })
	return &p.Members[i]
}

// atCollectives looks for the communicator whose members have not all entered the same collective.
func (p *Program) atCollectives() (v Verdict, ok bool) {
	type entered struct {
		member *Member
		last   *Collective
	}
	all := map[string][]entered{}
	for i := range p.Members {
		if r := p.Members[i].Recorded; r != nil {
			for j := range r.Collectives {
				c := &r.Collectives[j]
				all[c.Communicator] = append(all[c.Communicator], entered{&p.Members[i], c})
			}
		}
	}
	var longest float64
	for communicator, list := range all {
		// A rank that was looked at before the others entered may have come since.
		first := slices.MaxFunc(list, func(a, b entered) int { return cmp.Compare(a.last.Count, b.last.Count) })
		var ahead, behind []uint32
		var late *Member
		looked, came := uint64(math.MaxUint64), uint64(0)
		for _, e := range list {
			if e.last.Count < first.last.Count {
				behind = append(behind, e.member.Rank)
				looked = min(looked, e.member.taken)
				late = cmp.Or(late, e.member)
			} else {
				ahead = append(ahead, e.member.Rank)
				came = max(came, e.member.taken-min(e.member.taken, uint64(max(e.last.Since, 0)*1e9)))
			}
		}
		since := (float64(looked) - float64(came)) / 1e9
		if len(behind) == 0 || since < 1 || ok && since <= longest {
			continue
		}
		text := fmt.Sprintf("%s never entered %s %s of communicator %s; %s %s in it for %.0f s", ranks.Named(behind),
			first.last.Name,
			figures.Group(first.last.Count), communicator, ranks.Named(ahead), plural(len(ahead), "has been", "have been"),
			since)
		if len(late.Threads) > 0 {
			text += fmt.Sprintf("; rank %d: %s", late.Rank, late.Verdict.Text)
		}
		v, ok, longest = Verdict{Outcome: Stuck, Text: text}, true, since
	}
	return v, ok
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// elsewhere looks for the few ranks whose main thread is at another line than that of most.
func (p *Program) elsewhere() (v Verdict, ok bool) {
	at := map[string][]uint32{}
	for _, m := range p.Members {
		if len(m.Threads) == 0 || m.Verdict.Outcome == Moving && len(m.Threads[0].Python) > 0 &&
			m.Threads[0].Moved == "Python line" {
			return v, false // it goes on
		}
		at[stackText(m.Threads[0].Python)] = append(at[stackText(m.Threads[0].Python)], m.Rank)
	}
	var most string
	for stack, of := range at {
		if len(of) > len(at[most]) {
			most = stack
		}
	}
	if len(at) < 2 || 2*len(at[most]) <= len(p.Members) || most == "" {
		return v, false
	}
	var others []uint32
	for stack, of := range at {
		if stack != most {
			others = append(others, of...)
		}
	}
	slices.Sort(others)
	majority, odd := p.find(at[most][0]), p.find(others[0])
	text := fmt.Sprintf("%s not where the others are: rank %d: %s; %s: %s", ranks.Named(others)+
		plural(len(others), " is", " are"), odd.Rank, odd.Verdict.Text,
		ranks.Named(at[most]), majority.Verdict.Text)
	return Verdict{Outcome: Stuck, Text: text}, true
}

func stackText(frames []Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s:%d\n", f.File, f.Line)
	}
	return b.String()
}
