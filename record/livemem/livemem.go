// Package livemem follows which memory of a process is alive.
//
// Input: what the process's calls do to memory, as cudaapi.MemoryReader reads it from recorded calls, in the order of
// [At]; or records of allocations, where a log has them. Output: a [Change] for each block that is
// allocated or freed, and on request the blocks that are alive.
//
// A block is an allocation, memory of the program that was registered, an array, or physical memory. Physical memory
// (cuMemCreate) is alive while its handle is held or it is mapped; reserved addresses are no memory. What is allocated
// in the order of a stream that is being captured is a node of a graph and no memory: no call tells when the
// graph allocates.
package livemem

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Block is memory that is alive.
type Block struct {
	Address uint64 // or the handle of an array or of physical memory
	Bytes   uint64
	Kind    uint32 // CUpti_ActivityMemoryKind, or one of those of cudaapi beside it
	Device  uint32 // as the process numbers it
	Pool    uint64 // 0 for none, and where the call names none
	Ordered bool   // allocated in the order of a stream
	context uint64 // handle; 0 where it is not known
}

// A Change is an allocation or a release. It is valid until the next one.
type Change struct {
	Block    // as the call or the record tells it, completed from what was alive
	Time     uint64
	Released bool
	Kept     bool  // an allocation for which there is room: it is alive from now on
	Replaces bool  // a block was alive at the address. In an allocation its release is missing
	Replaced Block // that block
}

// A Room bounds the blocks that are alive in some processes together, and the sum of their bytes.
type Room struct {
	Most    int
	Dropped uint64 // allocations that found no room
	used    int
	bytes   uint64
}

// maxKept bounds each of the lists of things beside blocks: pools, contexts, captures, threads.
const maxKept = 1 << 16

// maxStack bounds the contexts that a thread has pushed.
const maxStack = 1 << 8

// A ProcessMemory follows the memory of one process.
type ProcessMemory struct {
	room    *Room
	changed func(*Change)
	change  Change // reused, so that following allocates nothing

	blocks   [spaces]map[uint64]Block
	physical map[uint64]references // by handle
	mapped   map[uint64]mapping    // by address
	pools    map[uint64]pool       // by handle
	captures map[stream]bool       // streams that are being captured
	nodes    map[uint64]bool       // addresses of allocations by graphs
	contexts map[uint64]uint32     // device by handle
	primary  map[uint32]uint64     // primary context by device
	threads  map[uint32][]current  // contexts of a thread, the current one last
}

// A key identifies a block. Addresses and handles are numbers of their own.
type key struct {
	space space
	id    uint64
}

type space uint8

const (
	addresses space = iota
	registered
	arrays
	handles
	spaces // their number
)

type references struct{ held, mapped int }

type mapping struct{ handle, bytes uint64 }

type pool struct{ kind, device uint32 }

// A stream is one that a call names. A thread's own default stream has one number in all threads.
type stream struct {
	handle uint64
	tid    uint32
}

type current struct {
	context uint64 // 0 where it is not known
	device  uint32
}

// New returns a process without memory, whose changes go to a function.
func New(room *Room, changed func(*Change)) *ProcessMemory {
	return &ProcessMemory{room: room, changed: changed, blocks: [...]map[uint64]Block{{}, {}, {}, {}},
		physical: make(map[uint64]references), mapped: make(map[uint64]mapping),
		pools: make(map[uint64]pool), captures: make(map[stream]bool), nodes: make(map[uint64]bool),
		contexts: make(map[uint64]uint32),
		primary:  make(map[uint32]uint64), threads: make(map[uint32][]current)}
}

// Clone returns a process with the same memory, in a room of its own.
func (p *ProcessMemory) Clone(room *Room, changed func(*Change)) *ProcessMemory {
	c := *p
	c.room, c.changed = room, changed
	c.physical, c.mapped = maps.Clone(p.physical), maps.Clone(p.mapped)
	c.pools, c.captures, c.nodes = maps.Clone(p.pools), maps.Clone(p.captures), maps.Clone(p.nodes)
	c.contexts, c.primary = maps.Clone(p.contexts), maps.Clone(p.primary)
	c.threads = make(map[uint32][]current, len(p.threads))
	for tid, stack := range p.threads {
		c.threads[tid] = slices.Clone(stack)
	}
	for i, blocks := range p.blocks {
		c.blocks[i] = maps.Clone(blocks)
		for _, b := range blocks {
			room.takeRoom(b.Bytes)
		}
	}
	return &c
}

// At is the time at which a call changes what is alive. An address may be another thread's as soon as the call that
// frees it has begun; what allocates has its address when it returns.
func At(c *cudaapi.MemoryCall, start, end uint64) uint64 {
	switch c.Does {
	case cudaapi.Frees, cudaapi.Releases, cudaapi.Unmaps, cudaapi.DestroysContext, cudaapi.ResetsDevice:
		return start
	}
	return end
}

// Locate sets the device of what a call allocates or creates on the thread's current one, that of the thread's context.
func Locate(c *cudaapi.MemoryCall, device uint32) {
	makes := c.Does == cudaapi.Allocates || c.Does == cudaapi.Creates || c.Does == cudaapi.MakesPool
	if makes && c.Pool == 0 && c.Device == cudaapi.NoDevice {
		c.Device = device
	}
}

// OfRecord returns what a record says that was written in place of calls: by CUPTI, or for the last part of a
// recording.
func OfRecord(m *tracelog.Memory) cudaapi.MemoryCall {
	c := cudaapi.MemoryCall{
		Kind: m.MemoryKind, Address: m.Address, Bytes: m.Bytes, Pool: m.Pool, Device: m.Device, Ordered: m.Async != 0,
	}
	switch m.Operation {
	case cudaapi.MemoryAllocated:
		c.Does = cudaapi.Allocates
	case cudaapi.MemoryReleased:
		c.Does = cudaapi.Frees
	}
	return c
}

// Record takes what a record says. It knows more than a call: nothing is to be found out, and all numbers are of one
// kind.
func (p *ProcessMemory) Record(c *cudaapi.MemoryCall, at uint64) {
	k := key{addresses, c.Address}
	b := Block{Address: c.Address, Bytes: c.Bytes, Kind: c.Kind, Device: c.Device, Pool: c.Pool, Ordered: c.Ordered}
	switch c.Does {
	case cudaapi.Allocates:
		p.allocate(k, b, at)
	case cudaapi.Frees:
		p.release(k, b, at)
	}
}

// Call takes what a call of a thread does at a time.
func (p *ProcessMemory) Call(tid uint32, c *cudaapi.MemoryCall, at uint64) {
	switch c.Does {
	case cudaapi.Allocates, cudaapi.Creates:
		p.allocates(tid, c, at)
	case cudaapi.Frees:
		if c.Ordered && p.captures[streamOf(tid, c)] {
			return // a node of a graph
		}
		k := keyOf(c)
		if _, known := p.blocks[k.space][k.id]; !known && k.space == addresses && p.nodes[c.Address] {
			return
		}
		p.release(k, Block{Address: c.Address, Kind: c.Kind, Device: p.currentOf(tid).device, Ordered: c.Ordered}, at)
	case cudaapi.Retains:
		p.refer(c.Address, references{held: 1}, at)
	case cudaapi.Releases:
		p.refer(c.Address, references{held: -1}, at)
	case cudaapi.Maps:
		p.unmap(c.Address, at)
		if keep(p.mapped, c.Address, mapping{c.Of, c.Bytes}, p.room.Most) {
			p.refer(c.Of, references{mapped: 1}, at)
		}
	case cudaapi.Unmaps:
		for address, rest := c.Address, c.Bytes; ; { // each call unmaps whole mappings, one behind the other
			bytes := p.unmap(address, at)
			if bytes == 0 || bytes >= rest {
				break
			}
			address, rest = address+bytes, rest-bytes
		}
	case cudaapi.MakesPool:
		of := pool{c.Kind, c.Device}
		if of.device == cudaapi.NoDevice {
			of.device = p.currentOf(tid).device
		}
		keep(p.pools, c.Address, of, maxKept)
	case cudaapi.BeginsCapture:
		keep(p.captures, streamOf(tid, c), true, maxKept)
	case cudaapi.EndsCapture:
		delete(p.captures, streamOf(tid, c))
	default:
		p.selects(tid, c, at)
	}
}

// keep sets an entry of a list if there is room for it.
func keep[K comparable, V any](list map[K]V, k K, v V, most int) bool {
	if _, known := list[k]; !known && len(list) >= most {
		return false
	}
	list[k] = v
	return true
}

func keyOf(c *cudaapi.MemoryCall) key {
	switch c.Kind {
	case cudaapi.RegisteredKind:
		return key{registered, c.Address}
	case cudaapi.ArrayKind:
		return key{arrays, c.Address}
	}
	if c.Does == cudaapi.Creates {
		return key{handles, c.Address}
	}
	return key{addresses, c.Address}
}

// threadStream is CU_STREAM_PER_THREAD, which a call may also name by 0. No other default stream can be captured.
const threadStream = 2

func streamOf(tid uint32, c *cudaapi.MemoryCall) stream {
	if c.Stream == 0 || c.Stream == threadStream {
		return stream{threadStream, tid}
	}
	return stream{handle: c.Stream}
}

func (p *ProcessMemory) allocates(tid uint32, c *cudaapi.MemoryCall, at uint64) {
	k := keyOf(c)
	if c.Ordered && p.captures[streamOf(tid, c)] {
		keep(p.nodes, c.Address, true, maxKept)
		return
	}
	in := p.currentOf(tid)
	b := Block{
		Address: c.Address, Bytes: c.Bytes, Kind: c.Kind, Device: in.device, Pool: c.Pool, Ordered: c.Ordered,
		context: in.context,
	}
	if of, known := p.pools[c.Pool]; known && c.Pool != 0 {
		b.Kind, b.Device = of.kind, of.device
	}
	if c.Device != cudaapi.NoDevice {
		b.Device = c.Device
	}
	if k.space == addresses {
		delete(p.nodes, c.Address)
	}
	if p.allocate(k, b, at) && k.space == handles {
		p.physical[c.Address] = references{held: 1}
	}
}

// allocate takes an allocation. It reports whether there is room for it.
func (p *ProcessMemory) allocate(k key, b Block, at uint64) bool {
	c := &p.change
	*c = Change{Block: b, Time: at}
	c.Replaced, c.Replaces = p.remove(k)
	if c.Kept = p.room.used < p.room.Most; c.Kept {
		c.Bytes = p.room.takeRoom(b.Bytes)
		p.blocks[k.space][k.id] = c.Block
	} else {
		p.room.Dropped++
	}
	p.changed(c)
	return c.Kept
}

// release takes a release, of a block that may be known.
func (p *ProcessMemory) release(k key, b Block, at uint64) {
	c := &p.change
	*c = Change{Block: b, Time: at, Released: true}
	if c.Replaced, c.Replaces = p.remove(k); c.Replaces {
		c.Block = c.Replaced
	}
	p.changed(c)
}

func (p *ProcessMemory) remove(k key) (b Block, known bool) {
	if b, known = p.blocks[k.space][k.id]; known {
		delete(p.blocks[k.space], k.id)
		p.room.give(b.Bytes)
		if k.space == handles {
			delete(p.physical, k.id)
		}
	}
	return b, known
}

// takeRoom makes room for a block. It returns the bytes that count: no sum of blocks wraps, whatever a log holds.
func (r *Room) takeRoom(bytes uint64) uint64 {
	bytes = min(bytes, math.MaxInt64-r.bytes)
	r.used++
	r.bytes += bytes
	return bytes
}

func (r *Room) give(bytes uint64) {
	r.used--
	r.bytes -= bytes
}

// refer changes the references to physical memory. That of another process is not known.
func (p *ProcessMemory) refer(handle uint64, by references, at uint64) {
	of, known := p.physical[handle]
	if !known {
		return
	}
	of.held, of.mapped = of.held+by.held, of.mapped+by.mapped
	p.physical[handle] = of
	if of.held <= 0 && of.mapped <= 0 {
		p.release(key{handles, handle}, Block{}, at)
	}
}

// unmap removes the mapping that begins at an address, and returns its bytes.
func (p *ProcessMemory) unmap(address uint64, at uint64) uint64 {
	m, known := p.mapped[address]
	if known {
		delete(p.mapped, address)
		p.refer(m.handle, references{mapped: -1}, at)
	}
	return m.bytes
}

// selects takes a call that makes, selects or destroys contexts.
func (p *ProcessMemory) selects(tid uint32, c *cudaapi.MemoryCall, at uint64) {
	switch c.Does {
	case cudaapi.MakesContext:
		keep(p.contexts, c.Address, c.Device, maxKept)
		p.push(tid, current{c.Address, c.Device})
	case cudaapi.FindsContext:
		keep(p.contexts, c.Address, c.Device, maxKept)
		keep(p.primary, c.Device, c.Address, maxKept)
	case cudaapi.PushesContext:
		p.push(tid, current{c.Address, p.contexts[c.Address]})
	case cudaapi.SelectsContext:
		if p.pop(tid); c.Address != 0 {
			p.push(tid, current{c.Address, p.contexts[c.Address]})
		}
	case cudaapi.SelectsDevice:
		p.pop(tid)
		p.push(tid, current{p.primary[c.Device], c.Device})
	case cudaapi.PopsContext:
		p.pop(tid)
	case cudaapi.DestroysContext:
		p.releaseAll(at, func(k key, b *Block) bool { return b.context == c.Address && c.Address != 0 && !b.Ordered })
		delete(p.contexts, c.Address)
		if p.currentOf(tid).context == c.Address {
			p.pop(tid)
		}
	case cudaapi.ResetsDevice:
		device := c.Device
		if device == cudaapi.NoDevice {
			device = p.currentOf(tid).device
		}
		p.releaseAll(at, func(k key, b *Block) bool { return b.Device == device && k.space != handles })
	}
}

func (p *ProcessMemory) push(tid uint32, c current) {
	if stack := p.threads[tid]; len(stack) < maxStack {
		keep(p.threads, tid, append(stack, c), maxKept)
	}
}

func (p *ProcessMemory) pop(tid uint32) {
	if stack := p.threads[tid]; len(stack) > 1 {
		p.threads[tid] = stack[:len(stack)-1]
	} else {
		delete(p.threads, tid)
	}
}

// currentOf returns the context in which a thread allocates. It defaults to the only context, else device 0's.
func (p *ProcessMemory) currentOf(tid uint32) current {
	if stack := p.threads[tid]; len(stack) > 0 {
		return stack[len(stack)-1]
	}
	if len(p.contexts) == 1 {
		for context, device := range p.contexts {
			return current{context, device}
		}
	}
	return current{p.primary[0], 0}
}

// DeviceOf returns the device on which a thread allocates.
func (p *ProcessMemory) DeviceOf(tid uint32) uint32 { return p.currentOf(tid).device }

// releaseAll releases blocks, in order.
func (p *ProcessMemory) releaseAll(at uint64, which func(key, *Block) bool) {
	for _, k := range p.keys(which) {
		p.release(k, Block{}, at)
	}
}

// keys returns the keys of blocks, in order.
func (p *ProcessMemory) keys(which func(key, *Block) bool) (list []key) {
	for i, blocks := range p.blocks {
		for id, b := range blocks {
			if k := (key{space(i), id}); which(k, &b) {
				list = append(list, k)
			}
		}
	}
	slices.SortFunc(list, func(a, b key) int { return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.id, b.id)) })
	return list
}

// Alive returns the blocks that are alive, in order.
func (p *ProcessMemory) Alive() []Block {
	var list []Block
	for _, k := range p.keys(func(key, *Block) bool { return true }) {
		list = append(list, p.blocks[k.space][k.id])
	}
	return list
}

// End forgets the process, without a change for each block: its end frees all.
func (p *ProcessMemory) End() {
	for _, blocks := range p.blocks {
		for _, b := range blocks {
			p.room.give(b.Bytes)
		}
	}
	*p = *New(p.room, p.changed)
}
