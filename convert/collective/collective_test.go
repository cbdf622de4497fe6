package collective

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Kind{
		"_Z41ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE": Waits,
		"_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE":          Waits,
		"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)":   Waits,
		"ncclKernel_AllReduce_RING_LL_Sum_float":                                          Waits,
		"_Z50ncclSymkDevKernel_AllReduce_RSxLD_AGxST_Sum_f3218ncclSymkDevWorkArgs":        Waits,
		"ncclDevKernel_AlltoAll": Waits,
		"_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE":      Counts,
		"_Z36ncclDevKernel_Reduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE": Counts,
		"_Z23ncclDevKernel_Generic_124ncclDevKernelArgsStorageILm4096EE":              Counts,
		"_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE":               Other,
		"_Z4gemmPfS_S_i": Other, "": Other, "nccl": Other, "_Z9AllReducev": Other,
	} {
		if got := kindOf(name); got != want {
			t.Errorf("%s is of kind %d, want %d", name, got, want)
		}
	}
}

// Of many collectives the same ones are kept on every stream, in whatever order CUPTI gave them.
func TestThin(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, n := range []uint64{0, 1, 7, 8, 9, 16, 17, 1000, 4097} {
		s := newSequence(Key{}, nil, 0, 8)
		list := make([]Part, n)
		for i := range list {
			list[i] = Part{Start: 10 * uint64(i+1), name: 1}
		}
		for chunk := range slices.Chunk(list, 100) {
			rnd.Shuffle(len(chunk), func(i, k int) { chunk[i], chunk[k] = chunk[k], chunk[i] })
			for _, p := range chunk {
				s.insertPart(p, false)
			}
		}
		s.finish()
		if s.mixed || s.count != n || len(s.parts) > 8 || uint64(len(s.parts)) < n>>s.level || uint64(len(s.parts)) > n>>s.level+1 {
			t.Errorf("of %d one of %d is kept: %d, %d counted, mixed %t", n, 1<<s.level, len(s.parts), s.count, s.mixed)
		}
		for _, above := range []uint8{0, 1, 3} {
			level := s.level + above
			for i := range n >> level {
				if p, ok := s.part(i, level); !ok || p.Start != 10*(number(i, level, 0)+1) || (p.Start/10-1)>>level != i {
					t.Errorf("of %d, part %d of level %d began at %d", n, i, level, p.Start)
				}
			}
		}
	}
	s := newSequence(Key{}, nil, 0, 8)
	for i := range 3 * reordered {
		s.insertPart(Part{Start: uint64(10000 - i)}, false)
	}
	if s.finish(); !s.mixed {
		t.Error("what came in no order passes as ordered")
	}
}

// A job makes streams of ranks: each belongs to a group, and is on a host.
type job struct {
	groups, hosts []int
	n             int
	jitter        float64 // ns by which ranks enter at different times
	own           float64 // ns by which groups run apart
}

func (j *job) streams(rnd *rand.Rand) (list []*Sequence) {
	for r := range j.groups {
		list = append(list, newSequence(Key{PID: uint32(r), Place: Place{Stream: 20}}, r, j.hosts[r], 64))
	}
	last := make(map[int]float64)
	for i := range j.n {
		clear(last)
		at := make([]float64, len(list))
		for r, g := range j.groups {
			at[r] = 1e9 + 1e7*float64(i) + j.own*float64(g)*rnd.Float64() + j.jitter*rnd.Float64()
			last[g] = max(last[g], at[r])
		}
		for r, s := range list {
			offset := float64(j.hosts[r]) * 7e12
			s.insertPart(Part{Start: uint64(offset + at[r]), End: uint64(offset + last[j.groups[r]] + 30e3 + 2e3*rnd.Float64()), Waits: true, name: 5}, false)
		}
	}
	for _, s := range list {
		s.finish()
	}
	return list
}

func TestMatch(t *testing.T) {
	t.Parallel()
	const late = 500e3
	for _, c := range []struct {
		name string
		job  job
		want string
	}{
		{"two hosts", job{[]int{0, 0, 0, 0}, []int{0, 0, 1, 1}, 100, late, 0}, "[0 1 2 3]"},
		{"more than is kept", job{[]int{0, 0, 0, 0}, []int{0, 0, 1, 1}, 3000, late, 0}, "[0 1 2 3]"},
		{"a group on each host, in step", job{[]int{0, 0, 1, 1}, []int{0, 0, 1, 1}, 200, late, 0}, "[0 1] [2 3]"},
		{"eight ranks on each host, in step", job{slices.Repeat([]int{0, 1}, 8), slices.Repeat([]int{0, 1}, 8), 200, late, 0}, "[0 2 4 6 8 10 12 14] [1 3 5 7 9 11 13 15]"},
		{"groups across hosts, in step", job{[]int{0, 1, 0, 1}, []int{0, 0, 1, 1}, 200, late, 0}, "[0 2] [1 3]"},
		{"groups that run apart", job{[]int{0, 1, 0, 1}, []int{0, 0, 1, 1}, 200, late, 3e6}, "[0 2] [1 3]"},
		{"ranks that enter together", job{[]int{0, 0}, []int{0, 1}, 200, 100, 0}, ""},
		{"few collectives", job{[]int{0, 0}, []int{0, 1}, 15, late, 0}, ""},
		{"a host with one rank", job{[]int{0, 0, 0}, []int{0, 1, 2}, 16, late, 0}, "[0 1 2]"},
	} {
		for seed := range uint64(20) {
			if got := membersOf(Match(c.job.streams(rand.New(rand.NewPCG(seed, 2))))); got != c.want {
				t.Errorf("%s, seed %d: %s, want %s", c.name, seed, got, c.want)
			}
		}
	}
}

func membersOf(found []*Communicator) (text string) {
	for i, c := range found {
		var list []uint32
		for _, m := range c.Members {
			list = append(list, m.PID)
		}
		if i > 0 {
			text += " "
		}
		text += fmt.Sprint(list)
	}
	return text
}

// Streams that have the same kernels from different ones on, and others that have different ones, do not match.
func TestMatchNeedsTheSameOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 3))
	all := (&job{[]int{0, 0}, []int{0, 1}, 60, 500e3, 0}).streams(rnd)
	from := func(s *Sequence, skip int, name uint64) *Sequence {
		c := newSequence(s.Key, s.Process, s.Host, s.most)
		for i, p := range s.parts[skip:] {
			if p.name = 5; i == 30 {
				p.name = name
			}
			c.insertPart(p, false)
		}
		c.finish()
		return c
	}
	for name, c := range map[string]struct {
		a, b *Sequence
		want string
	}{
		"the same":            {from(all[0], 0, 5), from(all[1], 0, 5), "[0 1]"},
		"cut off":             {from(all[0], 0, 5), from(&Sequence{Key: all[1].Key, Process: 1, Host: 1, most: 64, parts: all[1].parts[:30]}, 0, 5), "[0 1]"},
		"begun later":         {from(all[0], 0, 5), from(all[1], 1, 5), ""},
		"one of another name": {from(all[0], 0, 5), from(all[1], 0, 6), ""},
	} {
		if got := membersOf(Match([]*Sequence{c.a, c.b})); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// On one host ranks belong together whose recording began in the middle, each with another collective; and the parts of a collective are those of one.
func TestMatchBegunLater(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 5))
	for _, said := range []uint64{0, 7} {
		for _, skips := range [][]int{{0, 3, 1, 0}, {5, 0, 9, 2}, {1, 1, 0, 0}, {4, 4, 4, 4}} {
			all := (&job{[]int{0, 0, 0, 0, 1, 1}, []int{0, 0, 0, 0, 0, 0}, 60, 500e3, 3e6}).streams(rnd)
			most := slices.Max(skips)
			for r, skip := range append(skips, 0, 3) {
				s := newSequence(all[r].Key, r, 0, 64)
				s.Midway = true
				if s.Communicator = said; said != 0 && r > 3 {
					s.Communicator = said + 1
				}
				for i, p := range all[r].parts[skip:] {
					p.name, p.Label = uint64(skip+i)%7, uint32(skip+i)
					s.insertPart(p, false)
				}
				s.finish()
				all[r] = s
			}
			found := Match(all)
			if got := membersOf(found); got != "[0 1 2 3] [4 5]" {
				t.Errorf("%v, said %d: %s", skips, said, got)
				continue
			}
			count := 0
			found[0].Each(func(members []*Sequence, parts []Part) {
				for _, p := range parts {
					if p.Label != parts[0].Label || len(parts) != 4 {
						t.Errorf("%v, said %d: parts %+v", skips, said, parts)
					}
				}
				count++
			})
			if count != 60-most {
				t.Errorf("%v, said %d: %d collectives, want %d", skips, said, count, 60-most)
			}
			for r, s := range found[0].Members {
				if s.Skip() != uint64(most-skips[r]) {
					t.Errorf("%v, said %d: of rank %d %d are skipped", skips, said, r, s.Skip())
				}
			}
		}
	}
}

// Of recordings that begin and end in the middle of the program those are put together whose common collectives are known by number; none is given parts
// of others.
func TestMatchParts(t *testing.T) {
	t.Parallel()
	all := (&job{[]int{0, 0, 0}, []int{0, 0, 0}, 400, 500e3, 0}).streams(rand.New(rand.NewPCG(6, 6)))
	for i, s := range all {
		all[i] = newSequence(s.Key, i, 0, 512)
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range uint64(400) {
		begun, left := make([]uint64, 3), uint64(0)
		for r := range all {
			begun[r] = 1e9 + 1e7*i + uint64(500e3*rnd.Float64())
			left = max(left, begun[r]+30e3)
		}
		for r, s := range all {
			s.insertPart(Part{Start: begun[r], End: left + uint64(r), Waits: true, name: i % 7, Label: uint32(i)}, false)
		}
	}
	for _, s := range all {
		s.flush(len(s.early))
	}
	type part struct{ rank, from, to int }
	for _, c := range []struct {
		parts []part
		want  string
	}{
		{[]part{{0, 0, 60}, {1, 0, 30}, {2, 40, 60}}, "[0 1]"},   // of which two have nothing in common
		{[]part{{0, 0, 60}, {1, 0, 100}, {2, 5, 60}}, "[0 1]"},   // the second one is a sample
		{[]part{{0, 0, 60}, {2, 5, 60}, {1, 5, 100}}, "[0 2 1]"}, // so is the third one, which begins when the second one does
		{[]part{{0, 0, 100}, {1, 200, 400}}, ""},                 // at different times
		{[]part{{0, 0, 400}, {1, 3, 400}}, ""},                   // two samples of different collectives
	} {
		for _, said := range []uint64{0, 7} {
			var list []*Sequence
			for _, x := range c.parts {
				s := newSequence(all[x.rank].Key, x.rank, 0, 64)
				s.Midway, s.Communicator = true, said
				for i, p := range all[x.rank].parts[x.from:x.to] {
					p.name = uint64(x.from+i) % 7
					s.insertPart(p, false)
				}
				s.finish()
				list = append(list, s)
			}
			found := Match(list)
			if got := membersOf(found); got != c.want {
				t.Errorf("%v, said %d: %q, want %q", c.parts, said, got, c.want)
			}
			for _, f := range found {
				f.Each(func(_ []*Sequence, parts []Part) {
					for _, p := range parts {
						if p.Label != parts[0].Label {
							t.Errorf("%v, said %d: parts of collectives %d and %d", c.parts, said, p.Label, parts[0].Label)
						}
					}
				})
			}
		}
	}
}

// The parts of a collective are those of its number on each stream, if it waits for all.
func TestEach(t *testing.T) {
	t.Parallel()
	a, b := newSequence(Key{PID: 1}, 1, 0, 32), newSequence(Key{PID: 2}, 2, 1, 64)
	for i := range uint64(400) {
		p := Part{Start: 100 + i, End: 200 + i, Label: uint32(i), Waits: i%4 < 2}
		a.insertPart(p, false)
		if i < 200 {
			p.Start, p.End = 300+i, 400+i
			b.insertPart(p, false)
		}
	}
	c := &Communicator{[]*Sequence{a, b}}
	if !a.finish() || !b.finish() || c.Step() != 16 || a.Count() != 400 {
		t.Fatalf("one of %d is kept of %d", c.Step(), a.Count())
	}
	var got [2]int // by the number within four collectives
	c.Each(func(members []*Sequence, parts []Part) {
		if i := parts[0].Label; i != parts[1].Label || i%4 >= 2 || members[0] != a || parts[0] != (Part{Start: 100 + uint64(i), End: 200 + uint64(i), Before: 199 + uint64(max(i, 1)), Label: i, Waits: true, name: parts[0].name}) {
			t.Errorf("%+v", parts)
		}
		got[parts[0].Label%4]++
	})
	if got[0] == 0 || got[1] == 0 || got[0]+got[1] > 200/16 {
		t.Errorf("%d collectives, of each position in the step", got)
	}
}
