/* The callback API: one subscriber, called at entry and exit of API calls. */
#include "internal.h"

struct CUptiSubscriber {
	CUptiCallback callback;
	void *user;
};

static struct CUptiSubscriber subscriber;
static _Atomic bool taken;
static _Atomic bool on;
static _Atomic uint8_t enabled[SIM_RUNTIME + 1][CBIDS];

bool cupti_subscribed(void)
{
	return atomic_load_explicit(&on, memory_order_acquire);
}

void cupti_call_back(struct sim_frame *f, int site, int *result)
{
	if (!atomic_load_explicit(&enabled[f->domain][f->cbid % CBIDS], memory_order_relaxed))
		return;
	CUptiCallbackData data = {
		.callbackSite = site, .functionName = cupti_name(f->domain, f->cbid), .functionReturnValue = result,
		.functionParams = f->arguments,
		.symbolName = f->symbol, .contextUid = cupti_hook()->context_id(NULL),
		.correlationData = &f->data, .correlationId = f->correlation,
	};
	subscriber.callback(subscriber.user, f->domain, f->cbid, &data);
}

void cupti_subscription_clear(void)
{
	atomic_store(&on, false);
	for (uint32_t d = 0; d <= SIM_RUNTIME; d++)
		for (uint32_t i = 0; i < CBIDS; i++)
			atomic_store(&enabled[d][i], 0);
	atomic_store(&taken, false);
}

CUPTI(cuptiSubscribe, (struct CUptiSubscriber * *out, CUptiCallback callback, void *user))
{
	if (!out || !callback)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!cupti_hook() || cupti_forked())
		return CUPTI_ERROR_NOT_INITIALIZED;
	cupti_await_lock();
	if (atomic_exchange(&taken, true))
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	subscriber = (struct CUptiSubscriber){callback, user};
	*out = &subscriber;
	atomic_store_explicit(&on, true, memory_order_release);
	cupti_reattach();
	return CUPTI_SUCCESS;
}

/* The parameters say a name, and whether there may be more subscribers: here there may not. */
CUPTI(cuptiSubscribe_v2, (struct CUptiSubscriber * *out, CUptiCallback callback, void *user, void *params))
{
	return params ? cuptiSubscribe(out, callback, user) : CUPTI_ERROR_INVALID_PARAMETER;
}

/* Whether there is a subscriber. No function of CUPTI: programs of this stack call it. */
CUPTI_EXPORT int cudasim_subscribed(void);

CUPTI_EXPORT int cudasim_subscribed(void)
{
	return atomic_load(&taken);
}

static bool mine(const struct CUptiSubscriber *s)
{
	return s == &subscriber && atomic_load(&taken);
}

CUPTI(cuptiUnsubscribe, (struct CUptiSubscriber * s))
{
	if (!mine(s))
		return CUPTI_ERROR_INVALID_PARAMETER;
	cupti_await_lock();
	cupti_subscription_clear();
	cupti_reattach();
	return CUPTI_SUCCESS;
}

CUPTI(cuptiEnableCallback, (uint32_t enable, struct CUptiSubscriber *s, uint32_t domain, uint32_t cbid))
{
	if (!mine(s) || !cupti_name(domain, cbid))
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&enabled[domain][cbid], enable != 0);
	return CUPTI_SUCCESS;
}
