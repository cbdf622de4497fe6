package ranks

import (
	"math/bits"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// sizes are the collectives by the sizes of their messages.
type sizes map[sizeKey]*size

// A sizeKey says which collectives are taken together: those of one power of two.
type sizeKey struct {
	operation string
	members   int  // of the communicator, 0 for streams that are of none
	class     int  // binary digits of the message's bytes, -1 where they are not known
	sends     bool // by kernels that send and receive
}

// A size has the collectives of one key.
type size struct {
	count, bytes uint64
	least, most  uint64              // bytes of a message
	time         sketch.Distribution // ns of the collectives that were measured
	rate         sketch.Distribution // bytes a second of those: nccl-tests' algbw
}

const unsized = -1

// key is that of a label.
func (l *labels) key(of message, members int) sizeKey {
	k := sizeKey{operation: l.list[of.kernel].operation, members: members, class: unsized}
	if of.sized {
		k.class = bits.Len64(of.bytes)
	}
	return k
}

// of returns the row of a key.
func (s sizes) of(k sizeKey) *size {
	x := s[k]
	if x == nil {
		x = &size{least: timeline.Never}
		s[k] = x
	}
	return x
}

// countMessages counts collectives with messages of one size.
func (x *size) countMessages(of message, count uint64) {
	x.count += count
	if of.sized {
		x.bytes = sketch.Sum(x.bytes, product(of.bytes, count))
		x.least, x.most = min(x.least, of.bytes), max(x.most, of.bytes)
	}
}

// product multiplies two numbers; it returns the largest number where the product exceeds 64 bits.
func product(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return timeline.Never
}

// alone counts the collectives of a stream that is of no communicator.
func (s sizes) alone(names *labels, l *Lane) {
	for number, k := range l.Sums {
		of := names.all[number].message
		s.of(names.key(of, 0)).countMessages(of, k.Count)
	}
}

// count counts the collectives of a communicator. A collective whose size one member alone knows has that size.
func (s sizes) count(names *labels, m *communicator) {
	known, all := make(map[message]uint64), make(map[uint32]uint64) // the latter by kernel
	for _, member := range m.Members {
		own, kernels := make(map[message]uint64), make(map[uint32]uint64)
		for number, k := range member.Sums {
			of := names.all[number].message
			kernels[of.kernel] += k.Count
			if of.sized {
				own[of] += k.Count
			}
		}
		most(known, own)
		most(all, kernels)
	}
	for of, count := range known {
		s.of(names.key(of, m.size())).countMessages(of, count)
		all[of.kernel] -= min(all[of.kernel], count)
	}
	for number, count := range all {
		if of := (message{kernel: number}); count > 0 {
			s.of(names.key(of, m.size())).countMessages(of, count)
		}
	}
}

// most takes the larger ones of two maps' values.
func most[K comparable](all, of map[K]uint64) {
	for key, n := range of {
		all[key] = max(all[key], n)
	}
}

// measure takes the time of one collective. The last rank waits for nobody, so its part is the collective itself; where
// the last rank is not known, the shortest part is.
func (s sizes) measure(names *labels, m *communicator, x *comparison, parts []collective.Part) {
	of, known := names.agreed(parts)
	if !known || m.partial != "" || len(parts) < len(m.members) {
		return
	}
	time := timeline.Never
	for _, p := range parts {
		time = min(time, length(p))
	}
	if x.last >= 0 {
		time = length(parts[x.last])
	}
	k := names.key(of, m.size())
	array, _ := bandwidth(k.operation, uint64(k.members))
	if array == 0 || time == 0 {
		return
	}
	row := s.of(k)
	row.time.Add(time)
	row.rate.Add(uint64(float64(product(of.bytes, array)) * 1e9 / float64(time)))
}

// agreed is the message of the parts of a collective whose size is known, if they contradict each other in nothing.
func (l *labels) agreed(parts []collective.Part) (of message, known bool) {
	for _, p := range parts {
		x := l.all[p.Label].message
		switch {
		case !x.sized:
		case !known:
			of, known = x, true
		case x != of:
			return message{}, false
		}
	}
	return of, known
}

// bandwidth says how nccl-tests calculates bandwidths of n ranks: the size of the whole array in messages, 0 for an
// operation whose ranks need not wait for each other, and busbw over algbw.
func bandwidth(operation string, n uint64) (array uint64, bus float64) {
	apart := float64(n-1) / float64(n)
	switch operation {
	case "AllReduce":
		return 1, 2 * apart
	case "AllGather", "ReduceScatter", "AlltoAll", "AllToAll":
		return n, apart
	}
	return 0, 0
}
