package perfetto

// A field is the number of a protobuf field. All of them are from the message
// definitions under protos/perfetto/trace of the Perfetto project.
type field uint32

const (
	tracePacket field = 1 // Trace.packet

	// TracePacket
	packetProcessTree     field = 2
	packetClockSnapshot   field = 6
	packetTimestamp       field = 8
	packetSequenceID      field = 10
	packetTrackEvent      field = 11
	packetInternedData    field = 12
	packetSequenceFlags   field = 13
	packetGPURenderStage  field = 53
	packetDefaults        field = 59
	packetTrackDescriptor field = 60
	packetGPUInfo         field = 128

	// TracePacketDefaults
	defaultsTrackEvent field = 11
	defaultsClockID    field = 58
	trackDefaultsUUID  field = 11 // TrackEventDefaults.track_uuid

	// ClockSnapshot and ClockSnapshot.Clock
	snapshotClock        field = 1
	snapshotPrimaryClock field = 2
	clockID              field = 1
	clockTimestamp       field = 2
	clockIncremental     field = 3

	// TrackDescriptor
	descriptorUUID          field = 1
	descriptorName          field = 2
	descriptorProcess       field = 3
	descriptorThread        field = 4
	descriptorParent        field = 5
	descriptorCounter       field = 8
	descriptorChildOrdering field = 11
	descriptorRank          field = 12

	// CounterDescriptor
	counterUnit field = 3

	// ProcessDescriptor
	processPID       field = 1
	processSortIndex field = 3
	processName      field = 6
	processStart     field = 7

	// ProcessTree and ProcessTree.Process
	treeProcess     field = 1
	treePID         field = 1
	treeCommandLine field = 3

	// ThreadDescriptor
	threadPID       field = 1
	threadTID       field = 2
	threadSortIndex field = 3
	threadName      field = 5

	// TrackEvent, and GpuTrackEvent.gpu_correlation, which extends it
	eventCategoryID      field = 3
	eventAnnotation      field = 4
	eventType            field = 9
	eventNameID          field = 10
	eventCategory        field = 22
	eventName            field = 23
	eventCounterValue    field = 30
	eventGPUCorrelation  field = 3000
	correlationSubmitted field = 1
	correlationWaitedFor field = 2

	// DebugAnnotation
	annotationNameID   field = 1
	annotationUint     field = 3
	annotationInt      field = 4
	annotationDouble   field = 5
	annotationString   field = 6
	annotationPointer  field = 7
	annotationName     field = 10
	annotationStringID field = 17

	// InternedData
	internedCategory       field = 1
	internedEventName      field = 2
	internedAnnotationName field = 3
	internedContext        field = 23
	internedSpecification  field = 24
	internedString         field = 29
	internedKernel         field = 1000
	internedComputeArgName field = 1001

	// What is interned has its id in field 1, and a name or a string in field 2.
	internedID   field = 1
	internedText field = 2

	// InternedGraphicsContext, InternedGpuRenderStageSpecification, InternedComputeKernel
	contextPID      field = 2
	contextAPI      field = 3
	specDescription field = 3
	specCategory    field = 4
	kernelDemangled field = 3
	kernelArg       field = 5

	// GpuRenderStageEvent
	stageEventID  field = 1
	stageDuration field = 2
	stageContext  field = 5
	stageGPU      field = 11
	stageQueue    field = 13
	stageStage    field = 14
	stageName     field = 17
	stageKernel   field = 19
	stageNameID   field = 20
	stageLaunch   field = 21

	// GpuRenderStageEvent.ComputeKernelLaunch and Dim3
	launchGrid      field = 1
	launchWorkgroup field = 2
	launchArg       field = 3
	dimX            field = 1
	dimY            field = 2
	dimZ            field = 3

	// GpuRenderStageEvent.ExtraComputeArg
	computeArgNameID   field = 1
	computeArgName     field = 2
	computeArgInt      field = 3
	computeArgUint     field = 4
	computeArgDouble   field = 5
	computeArgString   field = 6
	computeArgStringID field = 7

	// GpuInfo and GpuInfo.Gpu
	infoGPU       field = 1
	gpuName       field = 1
	gpuVendor     field = 2
	gpuModel      field = 3
	gpuArch       field = 4
	gpuUUID       field = 5
	gpuExtra      field = 6
	gpuExtraKey   field = 1
	gpuExtraValue field = 2
)

// Values of enumerations.
const (
	clockRealtime  = 1 // BuiltinClock
	clockMonotonic = 3
	clockBoottime  = 6
	clockSequence  = 64 // the first id of the clocks that a sequence defines for itself

	incrementalStateCleared = 1 // TracePacket.SequenceFlags

	orderingExplicit = 3 // TrackDescriptor.ChildTracksOrdering

	typeSliceBegin = 1 // TrackEvent.Type
	typeSliceEnd   = 2
	typeInstant    = 3
	typeCounter    = 4

	unitBytes = 3 // CounterDescriptor.Unit: UNIT_SIZE_BYTES

	apiCUDA         = 4 // InternedGraphicsContext.Api
	categoryCompute = 2 // InternedGpuRenderStageSpecification.RenderStageCategory
)
