package collective

// A Sorter puts the kernels of NCCL of a process into sequences: those of each communicator, where NCCL names it.
//
// A program mostly has a stream for each communicator. So a stream of whose kernels NCCL names one communicator, which
// has kernels on no other stream, is one sequence, with the kernels of which NCCL tells nothing; where these are the
// most, NCCL does not tell its communicator. Of other streams, the kernels of which NCCL tells nothing are a sequence
// for each stream.
type Sorter struct {
	More bool // kernels are left out: there are too many streams or communicators

	pid     uint32
	process any
	most    int // parts that a sequence keeps
	limit   int // of streams, and of communicators
	streams map[Place]*stream
	order   []*stream
	told    map[uint64]*told
	hashes  []uint64 // of told, in the order of first sight
}

// A stream has the kernels of a stream.
type stream struct {
	at      Place
	all     *Sequence
	silent  *Sequence // those of which NCCL tells nothing; nil as long as it tells nothing of any kernel of the process
	hash    uint64    // of a communicator that NCCL names, 0 for none
	several bool      // NCCL names several
	counts  [2]uint64 // of kernels of which NCCL tells nothing, and of others
	whole   bool      // all is a sequence of the result
}

// told has the kernels of a communicator that NCCL names.
type told struct {
	sequence *Sequence
	at       Place // of the first one
	several  bool  // they are on several streams
}

// NewSorter returns the sorter of a process. Each sequence keeps a number of parts, an even one.
func NewSorter(pid uint32, process any, most, limit int) *Sorter {
	return &Sorter{
		pid: pid, process: process, most: most, limit: limit, streams: make(map[Place]*stream), told: make(map[uint64]*told),
	}
}

// Add adds a kernel, which may lie before those that were added last. communicator is the hash of its communicator, 0
// where NCCL does not tell it. The label is the caller's. It reports false for a kernel that is left out.
func (s *Sorter) Add(n Name, at Place, communicator, start, end uint64, label uint32) bool {
	of, t := s.stream(at), s.communicator(communicator, at)
	if of == nil || t == nil && communicator != 0 {
		s.More = true
		return false
	}
	p := Part{Start: start, End: end, Waits: n.Kind == Waits, Label: label, name: n.hash}
	of.all.insertPart(p, false)
	if t == nil {
		of.counts[0]++
		if of.silent != nil {
			of.silent.insertPart(p, false)
		}
		return true
	}
	of.counts[1]++
	of.several = of.several || of.hash != 0 && of.hash != communicator
	of.hash = communicator
	t.several = t.several || t.at != at
	t.sequence.insertPart(p, true)
	return true
}

func (s *Sorter) stream(at Place) *stream {
	of := s.streams[at]
	if of == nil && len(s.order) < s.limit {
		of = &stream{at: at, all: s.sequence(at, 0, at)}
		if len(s.told) > 0 {
			of.silent = s.sequence(at, 0, at)
		}
		s.streams[at], s.order = of, append(s.order, of)
	}
	return of
}

func (s *Sorter) communicator(hash uint64, at Place) *told {
	t := s.told[hash]
	if t != nil || hash == 0 || len(s.told) == s.limit {
		return t
	}
	if len(s.told) == 0 {
		for _, of := range s.order {
			of.silent = of.all.clone()
		}
	}
	t = &told{sequence: s.sequence(Place{}, hash, at), at: at}
	s.told[hash], s.hashes = t, append(s.hashes, hash)
	return t
}

func (s *Sorter) sequence(at Place, communicator uint64, first Place) *Sequence {
	x := newSequence(Key{s.pid, communicator, at}, s.process, 0, s.most)
	x.First = first
	return x
}

// Finish returns the sequences. One whose kernels came in no order is of no use ([Sequence.Ordered]).
func (s *Sorter) Finish() (all []*Sequence) {
	for _, of := range s.order {
		t := s.told[of.hash]
		if of.whole = t == nil || !of.several && !t.several; of.whole {
			if t != nil && of.counts[0] <= of.counts[1] {
				of.all.Key = t.sequence.Key
			}
			all = append(all, of.all)
			continue
		}
		if of.counts[0] > 0 {
			all = append(all, of.silent)
		}
	}
	for _, hash := range s.hashes {
		if t := s.told[hash]; !s.streams[t.at].whole {
			all = append(all, t.sequence)
		}
	}
	for _, s := range all {
		s.finish()
	}
	return all
}

// Of returns the sequence of a kernel, nil for one that was left out. The sorter is finished.
func (s *Sorter) Of(at Place, communicator uint64) *Sequence {
	of, t := s.streams[at], s.told[communicator]
	switch {
	case of == nil || t == nil && communicator != 0:
		return nil
	case of.whole:
		return of.all
	case t != nil:
		return t.sequence
	}
	return of.silent
}
