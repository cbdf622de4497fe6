package joined

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Partition is a place in the tables: whose rows they are.
type Partition struct {
	Run, Host, Rank string
	Log             string // a name that is the same in each conversion, and that no other log has
	Number          int    // in the order of the first rows, from 0
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

// A partKey is a partition of a log.
type partKey struct {
	run, host, rank string
	log             *logFacts
}

// partitionOf returns the partition of a process.
func (s *Sink) partitionOf(p *timeline.Process) partKey {
	at := partKey{run: s.log.run, host: cmp.Or(Plain(p.Host), UnknownHost), rank: NoRank, log: s.log}
	if p.Rank.Known {
		at.rank = strconv.FormatUint(uint64(p.Rank.Number), 10)
	}
	return at
}

// A part is what is known of the rows of a partition.
type part struct {
	Partition
	log   *logFacts
	sink  *Sink
	calls int64 // number of the last call
	gpus  map[deviceKey]bool

	stacks    map[*timeline.Python]bool // those with a row
	natives   map[*timeline.Native]bool // likewise
	callers   map[*timeline.Caller]string
	operators map[*timeline.Operator]string // their stacks
	paths     map[*timeline.RangeStack]string
	sequences map[*timeline.Stream]int64
}

// part returns the rows of a process's partition.
func (s *Sink) part(p *timeline.Process) *part {
	if own := s.of[p]; own != nil {
		return own
	}
	own := s.partAt(s.partitionOf(p))
	s.of[p] = own
	return own
}

func (s *Sink) partAt(at partKey) *part {
	own := s.parts[at]
	if own == nil {
		own = &part{Partition: Partition{at.run, at.host, at.rank, at.log.id, len(s.order)}, log: at.log, sink: s,
			gpus: make(map[deviceKey]bool), stacks: make(map[*timeline.Python]bool), natives: make(map[*timeline.Native]bool),
			operators: make(map[*timeline.Operator]string),
			callers:   make(map[*timeline.Caller]string), paths: make(map[*timeline.RangeStack]string),
			sequences: make(map[*timeline.Stream]int64)}
		s.parts[at], s.order = own, append(s.order, own)
	}
	return own
}
