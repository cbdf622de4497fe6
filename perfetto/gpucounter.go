package perfetto

import "math"

// A GPUUnit is the unit of a GPU's counter.
type GPUUnit struct{ over, under uint64 }

// The units of GPU counters. The zero GPUUnit is a number without a unit.
var (
	GPUBytes          = GPUUnit{over: unitOfByte}
	GPUBytesPerSecond = GPUUnit{over: unitOfByte, under: unitOfSecond}
	GPUHertz          = GPUUnit{over: unitOfHertz}
	GPUNanoseconds    = GPUUnit{over: unitOfNanosecond}
	GPUWatts          = GPUUnit{over: unitOfWatt}
	GPUCelsius        = GPUUnit{over: unitOfCelsius}
	GPUPercent        = GPUUnit{over: unitOfPercent}
	GPUPerSecond      = GPUUnit{under: unitOfSecond}
)

// A GPUCounter describes a counter of a GPU. Its name is unique on the GPU.
type GPUCounter struct {
	Name, Description string
	Unit              GPUUnit
}

// GPUCounterInfo describes counters of a GPU that are sampled together.
type GPUCounterInfo struct {
	GPU      uint32
	Group    string // under which the UI shows them
	Interval uint64 // ns from sample to sample
	Counters []GPUCounter
}

// GPUCounters are counters of a GPU that are sampled together.
type GPUCounters struct {
	*bufferedSequence
	info  *GPUCounterInfo // nil once it is written
	group uint64
}

// firstGPUGroup is the number of a group of counters; below are Perfetto's own groups. (With its
// group for compute counters the UI joins every kernel with every value.)
const firstGPUGroup = 100

// GPUCounters adds counters. Groups of one name are one: the UI has a row for each number of a group.
func (w *Writer) GPUCounters(info GPUCounterInfo) *GPUCounters {
	group, known := w.gpuGroups[info.Group]
	if !known {
		group = firstGPUGroup + uint64(len(w.gpuGroups))
		w.gpuGroups[info.Group] = group
	}
	return &GPUCounters{bufferedSequence: w.newBufferedSequence(0), info: &info, group: group}
}

// Values writes values of the counters, in their order, which hold from the previous packet of the
// counters up to a time. A NaN is no value.
func (c *GPUCounters) Values(ts uint64, values []float64) {
	b := c.begin()
	if c.info != nil {
		c.describe(b)
		c.info = nil
	}
	event := b.open(packetGPUCounter)
	b.uint(gpuEventDescriptor, 1)
	for i, v := range values {
		if !math.IsNaN(v) {
			b.gpuValue(i, v)
		}
	}
	b.close(event)
	c.endAt(ts)
}

// gpuValue appends the value of a counter: a whole number takes less room than a fraction.
func (b *buffer) gpuValue(i int, v float64) {
	start := b.open(gpuEventValue)
	b.uint(gpuValueID, uint64(i+1))
	if whole := math.Trunc(v); whole == v && math.Abs(v) < 1<<53 {
		b.uint(gpuValueInt, uint64(int64(v)))
	} else {
		b.fixed(gpuValueDouble, math.Float64bits(v))
	}
	b.close(start)
}

// describe appends the description of the counters.
func (c *GPUCounters) describe(b *buffer) {
	data := b.open(packetInternedData)
	interned := b.open(internedGPUCounters)
	b.uint(gpuCountersID, 1)
	descriptor := b.open(gpuCountersDescriptor)
	for i := range c.info.Counters {
		b.gpuSpec(i+1, &c.info.Counters[i])
	}
	if c.info.Interval > 0 {
		b.uint(gpuDescriptorPeriod, c.info.Interval)
	}
	group := b.open(gpuDescriptorGroup)
	b.uint(gpuGroupID, c.group)
	b.text(gpuGroupName, c.info.Group)
	for i := range c.info.Counters {
		b.uint(gpuGroupCounter, uint64(i+1))
	}
	b.close(group)
	b.close(descriptor)
	b.uint(gpuCountersGPU, uint64(c.info.GPU))
	b.close(interned)
	b.close(data)
}

func (b *buffer) gpuSpec(id int, c *GPUCounter) {
	spec := b.open(gpuDescriptorSpec)
	b.uint(gpuSpecID, uint64(id))
	b.text(gpuSpecName, c.Name)
	b.optional(gpuSpecDescription, c.Description)
	if c.Unit.over != 0 {
		b.uint(gpuSpecNumerator, c.Unit.over)
	}
	if c.Unit.under != 0 {
		b.uint(gpuSpecDenominator, c.Unit.under)
	}
	b.close(spec)
}
