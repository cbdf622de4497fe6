package cupti

import (
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// recordHeader is the size of the header of a record: its kind and its size.
const recordHeader = 8

// A decoder turns the batches of one process into records for the sink.
type decoder struct {
	pid       uint32
	sink      Sink
	shared    *peerMemory
	names     nameTable
	callers   callerTable
	python    pythonTable
	operators operatorTable
	called    callLog
	texts     textCache // texts of markers

	counts    counts        // records that arrived
	unnamed   int           // names that found no room
	overheads uint64        // of these, records of CUPTI's own overhead, which every flush adds
	calls     atomic.Uint64 // counts.apis, for others

	shift clockShift // of the times of all records
	decoded
}

// release gives the memory of the process's names and callers back.
func (d *decoder) release() {
	d.names.release(d.shared)
	d.callers.release(d.shared)
	d.python.release(d.shared)
	d.operators.release(d.shared)
}

// recorded is the number of records of the program's own activity.
func (d *decoder) recorded() uint64 {
	c := &d.counts
	return c.kernels + c.memcpys + c.memsets + c.apis + c.objects + c.extras - d.overheads
}

// batch decodes the records of a BATCH. When it returns an error, the records before the
// malformed one have reached the sink.
func (d *decoder) batch(b []byte) error {
	defer func() { d.calls.Store(d.counts.apis) }()
	for len(b) > 0 {
		if len(b) < recordHeader {
			return malformed("%d bytes behind the last record", len(b))
		}
		kind, size := int(le.Uint16(b)), int(le.Uint16(b[2:]))
		if size < recordHeader || size%8 != 0 || size > len(b) {
			return malformed("a record of kind %d and %d bytes in %d", kind, size, len(b))
		}
		if err := d.record(kind, b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// A recordKind is a kind of record that the injected library sends, in the table records.
type recordKind struct {
	size   int // bytes of its struct
	decode func(*decoder, []byte) error
}

func (d *decoder) record(kind int, b []byte) error {
	if kind >= len(records) || records[kind].decode == nil {
		return d.definition(tracelog.Kind(min(kind, 255)), b)
	}
	if len(b) < records[kind].size {
		return malformed("a record of kind %d in %d bytes", kind, len(b))
	}
	if err := records[kind].decode(d, b); err != nil {
		return err
	}
	switch tracelog.Kind(kind) {
	case tracelog.KindAPI:
		d.called.noteCall(d.api.TID, d.api.Start)
	case tracelog.KindOverhead:
		d.overheads++
	}
	return nil
}

// definition decodes a name, a chain, a code object or a stack of Python, or a stack of operators, to which later records refer. It skips a
// kind of a later version.
func (d *decoder) definition(kind tracelog.Kind, b []byte) error {
	switch kind {
	case tracelog.KindString:
		return decodeString(d, b)
	case tracelog.KindCaller:
		return decodeChain(d, b)
	case tracelog.KindPythonFrame:
		return d.python.addCode(d.shared, d.pid, b)
	case tracelog.KindPythonStack:
		return d.python.addStack(d.shared, d.sink, b)
	case tracelog.KindOperatorStack:
		return d.operators.add(d.shared, d.sink, b)
	}
	return nil
}

// A clockShift is how far the CLOCK_MONOTONIC of a process is ahead of the host's, in ns. It is not 0
// for a process in a time namespace.
type clockShift int64

// host returns a time of the process on the host's clock. 0 stands for no time.
func (s clockShift) host(at uint64) uint64 {
	if at == 0 {
		return 0
	}
	return at - uint64(s)
}

// duration returns the time from start to end, 0 for work that has no end.
func duration(start, end uint64) uint64 {
	if end < start {
		return 0
	}
	return end - start
}

// behind returns the text that follows a record of a size.
func (d *decoder) behind(b []byte, size int, length uint32) (string, error) {
	if length > nameMax || int(length) > len(b)-size {
		return "", malformed("a text of %d bytes in %d", length, len(b))
	}
	return d.texts.text(b[size : size+int(length)]), nil
}

const (
	// namesBytesMax is the most bytes of names that are kept per process.
	namesBytesMax = 64 << 20
	// peerBytesMax is the most memory that all connected processes together can make the recorder
	// take, beside a fixed amount for each.
	peerBytesMax = 256 << 20
	// nameCost is the memory of a name beside its text, numberCost that of its number in a process.
	nameCost, numberCost = 128, 32
)

// A peerMemory bounds the memory of all connected processes together. It holds their names, each
// text once: processes of one program send the same ones. The zero peerMemory is ready.
type peerMemory struct {
	most int // bytes; 0 means peerBytesMax

	mu    sync.Mutex
	taken int // bytes
	names map[string]*keptName
}

// A keptName is a name with the number of its users.
type keptName struct {
	text  string
	users int
}

// reserve reserves bytes of the room. It returns false if there are not so many.
func (m *peerMemory) reserve(bytes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserveLocked(bytes)
}

func (m *peerMemory) reserveLocked(bytes int) bool {
	most := m.most
	if most == 0 {
		most = peerBytesMax
	}
	if bytes > most-m.taken {
		return false
	}
	m.taken += bytes
	return true
}

func (m *peerMemory) give(bytes int) {
	m.mu.Lock()
	m.taken -= bytes
	m.mu.Unlock()
}

// keep keeps a name for one more user, and returns it. It returns false if there is no room.
func (m *peerMemory) keep(name []byte) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.reserveLocked(numberCost) {
		return "", false
	}
	k := m.names[string(name)]
	if k == nil {
		if !m.reserveLocked(len(name) + nameCost) {
			m.taken -= numberCost
			return "", false
		}
		k = &keptName{text: string(name)}
		if m.names == nil {
			m.names = map[string]*keptName{}
		}
		m.names[k.text] = k
	}
	k.users++
	return k.text, true
}

// drop ends one use of a name.
func (m *peerMemory) drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken -= numberCost
	k := m.names[name]
	if k.users--; k.users == 0 {
		m.taken -= len(name) + nameCost
		delete(m.names, name)
	}
}

// A nameTable holds the names that a process has sent, by number. From the first name on that finds
// no room it keeps none: each is "".
type nameTable struct {
	names []string // name number N is names[N-1]
	last  uint32   // number of the last name that was sent
	bytes int
}

// define adds the next name to the table; numbers run from 1 without a gap. It returns false if there is no room
// for the name.
func (t *nameTable) define(m *peerMemory, number uint32, name []byte) (kept bool, err error) {
	if int64(number) != int64(t.last)+1 || number > namesMax {
		return false, malformed("name number %d after %d", number, t.last)
	}
	t.bytes += len(name)
	if t.bytes > namesBytesMax {
		return false, malformed("more than %d bytes of names", namesBytesMax)
	}
	t.last = number
	if len(t.names) != int(number)-1 {
		return false, nil
	}
	text, kept := m.keep(name)
	if kept {
		t.names = append(t.names, text)
	}
	return kept, nil
}

// name returns a name by its number; 0 is the empty name.
func (t *nameTable) name(number uint32) (string, error) {
	switch {
	case number > t.last:
		return "", malformed("name number %d, which was never sent", number)
	case number == 0 || int64(number) > int64(len(t.names)):
		return "", nil
	}
	return t.names[number-1], nil
}

// release gives up all names.
func (t *nameTable) release(m *peerMemory) {
	for _, name := range t.names {
		m.drop(name)
	}
	t.names = nil
}

// decodeString adds a name. A name without room is counted as lost.
func decodeString(d *decoder, b []byte) error {
	if len(b) < stringSize {
		return malformed("a name in %d bytes", len(b))
	}
	number, length := le.Uint32(b[stringIdAt:]), le.Uint32(b[stringLengthAt:])
	if length > nameMax || int(length) > len(b)-stringSize {
		return malformed("a name of %d bytes in %d", length, len(b))
	}
	kept, err := d.names.define(d.shared, number, b[stringSize:stringSize+length])
	if err == nil && !kept {
		d.unnamed++
		d.sink.Add(&tracelog.Lost{PID: d.pid, Cause: tracelog.LostStrings, Count: 1})
	}
	return err
}

const (
	textsMax      = 4096      // texts that a textCache remembers
	textsBytesMax = 256 << 10 // bytes of these
)

// A textCache holds recent texts, so that each is allocated once. A marker holds its text
// itself, not a number.
type textCache struct {
	texts map[string]string
	bytes int
}

// text returns bytes as a string, without an allocation when the cache has it.
func (c *textCache) text(b []byte) string {
	if s, ok := c.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > textsBytesMax/16 {
		return s
	}
	if c.texts == nil || len(c.texts) == textsMax || c.bytes+len(s) > textsBytesMax {
		*c = textCache{texts: map[string]string{}}
	}
	c.texts[s] = s
	c.bytes += len(s)
	return s
}

// A callerTable holds the caller records of the calls of a process, by the number of the chain of
// return addresses above the call.
type callerTable struct {
	find func(c Chain, need func(depth int)) (caller uint32) // nil: nobody wants callers
	tell func(innermost uint64, depth int)                   // tells the process

	known   [chainsMax]bool
	callers [chainsMax]uint32
	numbers map[chainKey]uint32 // by what is in the chain
	taken   int                 // bytes of memory for chains

	mu     sync.Mutex
	depths map[uint64]int // by innermost address: what the process was told last
}

// A chainKey tells chains apart.
type chainKey struct {
	epoch     uint64
	addresses [chainMax]uint64 // 0 from the chain's end on
}

func keyOf(c Chain) chainKey {
	k := chainKey{epoch: c.Epoch}
	copy(k.addresses[:], c.Addresses)
	return k
}

// of returns the ID of the caller record of a chain that may not have been sent, without a number.
func (t *callerTable) of(c Chain) uint32 {
	if number, ok := t.numbers[keyOf(c)]; ok {
		return t.callers[number]
	}
	return t.find(c, func(int) {})
}

// chainCost is the memory of a chain, bytes.
const chainCost = 256

// define finds the caller record of a chain. A chain for which there is no room has none.
func (t *callerTable) define(m *peerMemory, number uint32, c Chain) error {
	if number == 0 || number >= chainsMax || t.known[number] {
		return malformed("chain number %d, out of range or sent before", number)
	}
	t.known[number] = true
	if t.find != nil && m.reserve(chainCost) {
		t.taken += chainCost
		if t.numbers == nil {
			t.numbers = map[chainKey]uint32{}
		}
		t.numbers[keyOf(c)] = number
		t.callers[number] = t.find(c, func(depth int) { t.need(c.Addresses[0], min(depth, chainMax)) })
	}
	return nil
}

// release gives the memory of the chains back.
func (t *callerTable) release(m *peerMemory) { m.give(t.taken) }

// need tells the process how many addresses of the chains with an innermost address are of use, if
// that is more than it was told before.
func (t *callerTable) need(innermost uint64, depth int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if depth <= t.depths[innermost] {
		return
	}
	if t.depths == nil {
		t.depths = map[uint64]int{}
	}
	t.depths[innermost] = depth
	t.tell(innermost, depth)
}

// caller returns the ID of the caller record of a chain; chain 0 has none.
func (t *callerTable) caller(number uint32) (uint32, error) {
	if number == 0 {
		return 0, nil
	}
	if number >= chainsMax || !t.known[number] {
		return 0, malformed("chain number %d, which was never sent", number)
	}
	return t.callers[number], nil
}

// decodeChain adds the caller of the calls with a chain.
func decodeChain(d *decoder, b []byte) error {
	if len(b) < chainSize {
		return malformed("a chain in %d bytes", len(b))
	}
	count := le.Uint32(b[chainCountAt:])
	if count == 0 || count > chainMax || int(count)*8 > len(b)-chainSize {
		return malformed("a chain of %d addresses in %d bytes", count, len(b))
	}
	addresses := make([]uint64, count)
	for i := range addresses {
		addresses[i] = le.Uint64(b[chainSize+8*i:])
	}
	return d.callers.define(d.shared, le.Uint32(b[chainIdAt:]), Chain{
		Epoch: le.Uint64(b[chainEpochAt:]), Addresses: addresses,
	})
}
