package collective

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]kind{
		"_Z41ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE": waits,
		"_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE":          waits,
		"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)":   waits,
		"ncclKernel_AllReduce_RING_LL_Sum_float":                                          waits,
		"_Z50ncclSymkDevKernel_AllReduce_RSxLD_AGxST_Sum_f3218ncclSymkDevWorkArgs":        waits,
		"ncclDevKernel_AlltoAll": waits,
		"_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE":      counts,
		"_Z36ncclDevKernel_Reduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE": counts,
		"_Z23ncclDevKernel_Generic_124ncclDevKernelArgsStorageILm4096EE":              counts,
		"_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE":               other,
		"_Z4gemmPfS_S_i": other, "": other, "nccl": other, "_Z9AllReducev": other,
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
		s := newStream(Key{}, nil, 0, 8)
		list := make([]Part, n)
		for i := range list {
			list[i] = Part{Start: 10 * uint64(i+1), name: 1}
		}
		for chunk := range slices.Chunk(list, 100) {
			rnd.Shuffle(len(chunk), func(i, k int) { chunk[i], chunk[k] = chunk[k], chunk[i] })
			for _, p := range chunk {
				s.add(p)
			}
		}
		s.finish()
		if s.mixed || s.count != n || len(s.parts) > 8 || n > 0 && uint64(len(s.parts)) != (n+s.step-1)/s.step {
			t.Errorf("of %d every %d is kept: %d, %d counted, mixed %t", n, s.step, len(s.parts), s.count, s.mixed)
		}
		for number := uint64(0); number < n; number += s.step {
			if p, ok := s.part(number); !ok || p.Start != 10*(number+1) {
				t.Errorf("of %d number %d began at %d", n, number, p.Start)
			}
		}
	}
	s := newStream(Key{}, nil, 0, 8)
	for i := range 3 * reordered {
		s.add(Part{Start: uint64(10000 - i)})
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

func (j *job) streams(rnd *rand.Rand) (list []*Stream) {
	for r := range j.groups {
		list = append(list, newStream(Key{PID: uint32(r), Stream: 20}, r, j.hosts[r], 64))
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
			s.add(Part{Start: uint64(offset + at[r]), End: uint64(offset + last[j.groups[r]] + 30e3 + 2e3*rnd.Float64()), Waits: true, name: 5})
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
	from := func(s *Stream, skip int, name uint64) *Stream {
		c := newStream(s.Key, s.Process, s.Host, s.most)
		for i, p := range s.parts[skip:] {
			if p.name = 5; i == 30 {
				p.name = name
			}
			c.add(p)
		}
		c.finish()
		return c
	}
	for name, c := range map[string]struct {
		a, b *Stream
		want string
	}{
		"the same":            {from(all[0], 0, 5), from(all[1], 0, 5), "[0 1]"},
		"cut off":             {from(all[0], 0, 5), from(&Stream{Key: all[1].Key, Process: 1, Host: 1, most: 64, parts: all[1].parts[:30]}, 0, 5), "[0 1]"},
		"begun later":         {from(all[0], 0, 5), from(all[1], 1, 5), ""},
		"one of another name": {from(all[0], 0, 5), from(all[1], 0, 6), ""},
	} {
		if got := membersOf(Match([]*Stream{c.a, c.b})); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The parts of a collective are those of its number on each stream, if it waits for all.
func TestEach(t *testing.T) {
	t.Parallel()
	a, b := newStream(Key{PID: 1}, 1, 0, 8), newStream(Key{PID: 2}, 2, 1, 8)
	for i := range uint64(20) {
		a.add(Part{Start: 100 + i, Waits: i%4 == 0})
		if i < 10 {
			b.add(Part{Start: 200 + i, Waits: i%4 == 0})
		}
	}
	a.finish()
	b.finish()
	var got []string
	(&Communicator{[]*Stream{a, b}}).Each(func(members []*Stream, parts []Part) {
		got = append(got, fmt.Sprint(members[0].PID, parts[0].Start, members[1].PID, parts[1].Start))
	})
	if want := []string{"1 100 2 200", "1 104 2 204", "1 108 2 208"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Parts gives every part, with the numbers under which a stream keeps some of them.
func TestParts(t *testing.T) {
	t.Parallel()
	const steps = 3000
	logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 1, PerHost: 2, Steps: steps, Straggler: -1})
	var sources []*Source
	var streams []*Stream
	for _, l := range logs {
		s := &Source{Open: logtest.InMemory(l.Data), Of: 2}
		list, err := Read(s)
		if err != nil {
			t.Fatal(err)
		}
		sources, streams = append(sources, s), append(streams, list...)
	}
	found := Match(streams)
	if len(found) != 2 {
		t.Fatalf("%d communicators, want that of the host and that of all", len(found))
	}
	for _, c := range found {
		for i, m := range c.Members {
			next, kept := uint64(0), 0
			err := Parts(sources[i], []*Stream{m}, func(of *Stream, number uint64, p Part) {
				if of != m || number != next {
					t.Fatalf("part %d comes as part %d of %v", next, number, of.Key)
				}
				next++
				if same, ok := m.part(number); ok && number%m.step == 0 {
					kept++
					if same.Start != p.Start || same.End != p.End || same.Waits != p.Waits {
						t.Fatalf("part %d is %v, and was %v", number, p, same)
					}
				}
			})
			if err != nil || next != steps || kept != len(m.parts) || kept == steps {
				t.Errorf("%v: %d parts, %d of %d kept ones: %v", m.Key, next, kept, len(m.parts), err)
			}
		}
	}
}
