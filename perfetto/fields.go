package perfetto

// A field is the number of a protobuf field.
//
// The constants are Perfetto's, from the definitions under protos/perfetto/trace of that
// project. The comment of each one is its name there. A test compares them with the
// definitions that the trace processor carries.
type field uint32

// trace.proto, trace_packet.proto and trace_packet_defaults.proto.
const (
	tracePacket field = 1 // Trace.packet

	packetProcessTree     field = 2   // TracePacket.process_tree
	packetChromeEvents    field = 5   // TracePacket.chrome_events
	packetClockSnapshot   field = 6   // TracePacket.clock_snapshot
	packetTimestamp       field = 8   // TracePacket.timestamp
	packetSequenceID      field = 10  // TracePacket.trusted_packet_sequence_id
	packetTrackEvent      field = 11  // TracePacket.track_event
	packetInternedData    field = 12  // TracePacket.interned_data
	packetSequenceFlags   field = 13  // TracePacket.sequence_flags
	packetGPUCounter      field = 52  // TracePacket.gpu_counter_event
	packetRenderStage     field = 53  // TracePacket.gpu_render_stage_event
	packetDefaults        field = 59  // TracePacket.trace_packet_defaults
	packetTrackDescriptor field = 60  // TracePacket.track_descriptor
	packetPerfSample      field = 66  // TracePacket.perf_sample
	packetTaskState       field = 117 // TracePacket.generic_kernel_task_state_event
	packetGPUInfo         field = 128 // TracePacket.gpu_info

	incrementalStateCleared = 1 // TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED

	defaultsTrackEvent     field = 11 // TracePacketDefaults.track_event_defaults
	defaultsPerfSample     field = 12 // TracePacketDefaults.perf_sample_defaults
	defaultsClockID        field = 58 // TracePacketDefaults.timestamp_clock_id
	eventDefaultsTrackUUID field = 11 // TrackEventDefaults.track_uuid
)

// chrome_trace_event.proto.
const (
	bundleMetadata field = 2 // ChromeEventBundle.metadata
	metadataName   field = 1 // ChromeMetadata.name
	metadataText   field = 2 // ChromeMetadata.string_value
)

// clock_snapshot.proto and ../common/builtin_clock.proto.
const (
	snapshotClock        field = 1 // ClockSnapshot.clocks
	snapshotPrimaryClock field = 2 // ClockSnapshot.primary_trace_clock
	clockID              field = 1 // ClockSnapshot.Clock.clock_id
	clockTimestamp       field = 2 // ClockSnapshot.Clock.timestamp
	clockIsIncremental   field = 3 // ClockSnapshot.Clock.is_incremental

	clockRealtime   = 1  // BuiltinClock.BUILTIN_CLOCK_REALTIME
	clockMonotonic  = 3  // BuiltinClock.BUILTIN_CLOCK_MONOTONIC
	clockBoottime   = 6  // BuiltinClock.BUILTIN_CLOCK_BOOTTIME
	clockBuiltinMax = 63 // BuiltinClock.BUILTIN_CLOCK_MAX_ID

	clockSequence = clockBuiltinMax + 1 // the first clock that a sequence may define
)

// track_event/track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto and
// counter_descriptor.proto; ps/process_tree.proto.
const (
	descriptorUUID          field = 1  // TrackDescriptor.uuid
	descriptorName          field = 2  // TrackDescriptor.name
	descriptorProcess       field = 3  // TrackDescriptor.process
	descriptorThread        field = 4  // TrackDescriptor.thread
	descriptorParentUUID    field = 5  // TrackDescriptor.parent_uuid
	descriptorCounter       field = 8  // TrackDescriptor.counter
	descriptorApart         field = 9  // TrackDescriptor.disallow_merging_with_system_tracks
	descriptorChildOrdering field = 11 // TrackDescriptor.child_ordering
	descriptorOrderRank     field = 12 // TrackDescriptor.sibling_order_rank

	orderingExplicit = 3 // TrackDescriptor.ChildTracksOrdering.EXPLICIT

	processPID       field = 1 // ProcessDescriptor.pid
	processSortIndex field = 3 // ProcessDescriptor.legacy_sort_index
	processName      field = 6 // ProcessDescriptor.process_name
	processStart     field = 7 // ProcessDescriptor.start_timestamp_ns

	threadPID       field = 1 // ThreadDescriptor.pid
	threadTID       field = 2 // ThreadDescriptor.tid
	threadSortIndex field = 3 // ThreadDescriptor.legacy_sort_index
	threadName      field = 5 // ThreadDescriptor.thread_name

	counterUnit     field = 3 // CounterDescriptor.unit
	counterUnitName field = 6 // CounterDescriptor.unit_name

	unitCount = 2 // CounterDescriptor.Unit.UNIT_COUNT
	unitBytes = 3 // CounterDescriptor.Unit.UNIT_SIZE_BYTES

	treeProcess     field = 1 // ProcessTree.processes
	treePID         field = 1 // ProcessTree.Process.pid
	treeParent      field = 2 // ProcessTree.Process.ppid
	treeCommandLine field = 3 // ProcessTree.Process.cmdline
)

// track_event/track_event.proto and debug_annotation.proto; gpu/gpu_track_event.proto for
// the extension.
const (
	eventCategoryID     field = 3    // TrackEvent.category_iids
	eventAnnotation     field = 4    // TrackEvent.debug_annotations
	eventType           field = 9    // TrackEvent.type
	eventNameID         field = 10   // TrackEvent.name_iid
	eventCategory       field = 22   // TrackEvent.categories
	eventName           field = 23   // TrackEvent.name
	eventCounterValue   field = 30   // TrackEvent.counter_value
	eventCounterDouble  field = 44   // TrackEvent.double_counter_value
	eventFlowID         field = 47   // TrackEvent.flow_ids
	eventGPUCorrelation field = 3000 // TrackEvent.gpu_correlation, an extension

	typeSliceBegin = 1 // TrackEvent.Type.TYPE_SLICE_BEGIN
	typeSliceEnd   = 2 // TrackEvent.Type.TYPE_SLICE_END
	typeInstant    = 3 // TrackEvent.Type.TYPE_INSTANT
	typeCounter    = 4 // TrackEvent.Type.TYPE_COUNTER

	correlationSubmitted field = 1 // GpuCorrelation.render_stage_submission_event_ids
	correlationWaitedFor field = 2 // GpuCorrelation.render_stage_wait_event_ids

	annotationNameID   field = 1  // DebugAnnotation.name_iid
	annotationUint     field = 3  // DebugAnnotation.uint_value
	annotationInt      field = 4  // DebugAnnotation.int_value
	annotationDouble   field = 5  // DebugAnnotation.double_value
	annotationString   field = 6  // DebugAnnotation.string_value
	annotationPointer  field = 7  // DebugAnnotation.pointer_value
	annotationName     field = 10 // DebugAnnotation.name
	annotationStringID field = 17 // DebugAnnotation.string_value_iid
)

// interned_data/interned_data.proto; gpu/gpu_interned_data.proto for the extensions, of
// which the trace processor carries no definitions.
const (
	internedCategories      field = 1    // InternedData.event_categories
	internedEventNames      field = 2    // InternedData.event_names
	internedAnnotationNames field = 3    // InternedData.debug_annotation_names
	internedFunctions       field = 5    // InternedData.function_names
	internedFrames          field = 6    // InternedData.frames
	internedCallstacks      field = 7    // InternedData.callstacks
	internedMappingPaths    field = 17   // InternedData.mapping_paths
	internedSourcePaths     field = 18   // InternedData.source_paths
	internedMappings        field = 19   // InternedData.mappings
	internedContexts        field = 23   // InternedData.graphics_contexts
	internedSpecifications  field = 24   // InternedData.gpu_specifications
	internedStrings         field = 29   // InternedData.debug_annotation_string_values
	internedGPUCounters     field = 47   // InternedData.gpu_counter_descriptors
	internedKernels         field = 1000 // InternedData.compute_kernels, an extension
	internedComputeArgNames field = 1001 // InternedData.compute_arg_names, an extension

	internedID   field = 1 // EventName.iid, as in all messages of InternedData
	internedText field = 2 // EventName.name, as in all messages of InternedData with a text
)

// profiling/profile_packet.proto and profile_common.proto; ../common/perf_events.proto.
const (
	samplesTimebase field = 1  // PerfSampleDefaults.timebase
	timebasePeriod  field = 1  // PerfEvents.Timebase.period
	timebaseName    field = 10 // PerfEvents.Timebase.name

	samplePID   field = 2 // PerfSample.pid
	sampleTID   field = 3 // PerfSample.tid
	sampleStack field = 4 // PerfSample.callstack_iid
	sampleMode  field = 5 // PerfSample.cpu_mode
	sampleCount field = 6 // PerfSample.timebase_count

	modeUser = 2 // Profiling.CpuMode.MODE_USER

	stackFrameID  field = 2 // Callstack.frame_ids
	frameFunction field = 2 // Frame.function_name_id
	frameMapping  field = 3 // Frame.mapping_id
	framePC       field = 4 // Frame.rel_pc
	frameFile     field = 5 // Frame.source_path_iid
	frameLine     field = 6 // Frame.line_number
	mappingPath   field = 7 // Mapping.path_string_ids
)

// gpu/gpu_render_stage_event.proto.
const (
	contextPID field = 2 // InternedGraphicsContext.pid
	contextAPI field = 3 // InternedGraphicsContext.api

	apiCUDA = 4 // InternedGraphicsContext.Api.CUDA

	specDescription field = 3 // InternedGpuRenderStageSpecification.description
	specCategory    field = 4 // InternedGpuRenderStageSpecification.category

	categoryCompute = 2 // InternedGpuRenderStageSpecification.RenderStageCategory.COMPUTE

	kernelDemangled field = 3 // InternedComputeKernel.demangled_name
	kernelArg       field = 5 // InternedComputeKernel.args

	stageEventID  field = 1  // GpuRenderStageEvent.event_id
	stageDuration field = 2  // GpuRenderStageEvent.duration
	stageContext  field = 5  // GpuRenderStageEvent.context
	stageGPU      field = 11 // GpuRenderStageEvent.gpu_id
	stageQueueID  field = 13 // GpuRenderStageEvent.hw_queue_iid
	stageStageID  field = 14 // GpuRenderStageEvent.stage_iid
	stageName     field = 17 // GpuRenderStageEvent.name
	stageKernelID field = 19 // GpuRenderStageEvent.kernel_iid
	stageNameID   field = 20 // GpuRenderStageEvent.name_iid
	stageLaunch   field = 21 // GpuRenderStageEvent.launch

	launchGrid      field = 1 // GpuRenderStageEvent.ComputeKernelLaunch.grid_size
	launchWorkgroup field = 2 // GpuRenderStageEvent.ComputeKernelLaunch.workgroup_size
	launchArg       field = 3 // GpuRenderStageEvent.ComputeKernelLaunch.args
	dimX            field = 1 // GpuRenderStageEvent.Dim3.x
	dimY            field = 2 // GpuRenderStageEvent.Dim3.y
	dimZ            field = 3 // GpuRenderStageEvent.Dim3.z

	computeArgNameID   field = 1 // GpuRenderStageEvent.ExtraComputeArg.name_iid
	computeArgName     field = 2 // GpuRenderStageEvent.ExtraComputeArg.name
	computeArgInt      field = 3 // GpuRenderStageEvent.ExtraComputeArg.int_value
	computeArgUint     field = 4 // GpuRenderStageEvent.ExtraComputeArg.uint_value
	computeArgDouble   field = 5 // GpuRenderStageEvent.ExtraComputeArg.double_value
	computeArgString   field = 6 // GpuRenderStageEvent.ExtraComputeArg.string_value
	computeArgStringID field = 7 // GpuRenderStageEvent.ExtraComputeArg.string_value_iid
)

// system_info/gpu_info.proto.
const (
	infoGPU       field = 1 // GpuInfo.gpus
	gpuName       field = 1 // GpuInfo.Gpu.name
	gpuVendor     field = 2 // GpuInfo.Gpu.vendor
	gpuModel      field = 3 // GpuInfo.Gpu.model
	gpuArch       field = 4 // GpuInfo.Gpu.architecture
	gpuUUID       field = 5 // GpuInfo.Gpu.uuid
	gpuExtra      field = 6 // GpuInfo.Gpu.extra_info
	gpuExtraKey   field = 1 // GpuInfo.Gpu.KeyValue.key
	gpuExtraValue field = 2 // GpuInfo.Gpu.KeyValue.value
)

// gpu/gpu_counter_event.proto and ../common/gpu_counter_descriptor.proto.
const (
	gpuCountersID         field = 1 // InternedGpuCounterDescriptor.iid
	gpuCountersDescriptor field = 2 // InternedGpuCounterDescriptor.counter_descriptor
	gpuCountersGPU        field = 3 // InternedGpuCounterDescriptor.gpu_id

	gpuDescriptorSpec   field = 1 // GpuCounterDescriptor.specs
	gpuDescriptorPeriod field = 3 // GpuCounterDescriptor.min_sampling_period_ns
	gpuDescriptorGroup  field = 6 // GpuCounterDescriptor.counter_groups

	gpuSpecID          field = 1 // GpuCounterDescriptor.GpuCounterSpec.counter_id
	gpuSpecName        field = 2 // GpuCounterDescriptor.GpuCounterSpec.name
	gpuSpecDescription field = 3 // GpuCounterDescriptor.GpuCounterSpec.description
	gpuSpecNumerator   field = 7 // GpuCounterDescriptor.GpuCounterSpec.numerator_units
	gpuSpecDenominator field = 8 // GpuCounterDescriptor.GpuCounterSpec.denominator_units

	gpuGroupID      field = 1 // GpuCounterDescriptor.GpuCounterGroupSpec.group_id
	gpuGroupName    field = 2 // GpuCounterDescriptor.GpuCounterGroupSpec.name
	gpuGroupCounter field = 4 // GpuCounterDescriptor.GpuCounterGroupSpec.counter_ids

	gpuEventValue      field = 2 // GpuCounterEvent.counters
	gpuEventDescriptor field = 4 // GpuCounterEvent.counter_descriptor_iid
	gpuValueID         field = 1 // GpuCounterEvent.GpuCounter.counter_id
	gpuValueInt        field = 2 // GpuCounterEvent.GpuCounter.int_value
	gpuValueDouble     field = 3 // GpuCounterEvent.GpuCounter.double_value

	unitOfByte       = 7  // GpuCounterDescriptor.MeasureUnit.BYTE
	unitOfHertz      = 13 // GpuCounterDescriptor.MeasureUnit.HERTZ
	unitOfNanosecond = 19 // GpuCounterDescriptor.MeasureUnit.NANOSECOND
	unitOfSecond     = 22 // GpuCounterDescriptor.MeasureUnit.SECOND
	unitOfWatt       = 29 // GpuCounterDescriptor.MeasureUnit.WATT
	unitOfCelsius    = 34 // GpuCounterDescriptor.MeasureUnit.CELSIUS
	unitOfPercent    = 37 // GpuCounterDescriptor.MeasureUnit.PERCENT
)

// generic_kernel/generic_task.proto.
const (
	taskCPU   field = 1 // GenericKernelTaskStateEvent.cpu
	taskName  field = 2 // GenericKernelTaskStateEvent.comm
	taskTID   field = 3 // GenericKernelTaskStateEvent.tid
	taskState field = 4 // GenericKernelTaskStateEvent.state
	taskPrio  field = 5 // GenericKernelTaskStateEvent.prio
)
