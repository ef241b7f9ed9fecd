"""Small scheduled modules in the TPU compiler's spelling."""

_GATHER = ("replica_groups=mesh['axis_0'=256,'axis_1'=1] {'axis_0'}, dimensions={0}, use_global_device_ids=true, "
           'frontend_attributes={chain_id="0"}')

# A loop of 10 steps of 2; in each, a gather starts, a matmul runs beside it, and a second matmul uses what was gathered.
LOOP = f"""HloModule jit_step, is_scheduled=true, num_partitions=256

%start (p: bf16[16,4096]) -> (bf16[16,4096], bf16[4096,4096]) {{
  %p = bf16[16,4096]{{1,0:T(8,128)(2,1)}} parameter(0)
  %gather.0 = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} all-gather(%p), channel_id=7, {_GATHER}
  ROOT %cc = (bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) custom-call(%gather.0), custom_call_target="AsyncCollectiveStart"
}}

%done (q: bf16[16,4096], r: bf16[4096,4096]) -> bf16[4096,4096] {{
  %q = bf16[16,4096]{{1,0:T(8,128)(2,1)}} parameter(0)
  %r = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} parameter(1)
  %gather.1 = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} all-gather(%q), channel_id=7, {_GATHER}
  ROOT %cd = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} custom-call(%q, %r, %gather.1), custom_call_target="AsyncCollectiveDone"
}}

%async_collective_fusion.1 (s: bf16[16,4096], t: bf16[4096,4096], u: bf16[4096,4096]) -> (bf16[4096,4096], bf16[16,4096], bf16[4096,4096]) {{
  %s = bf16[16,4096]{{1,0:T(8,128)(2,1)}} parameter(0)
  %t = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} parameter(1)
  %u = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} parameter(2)
  %conv.0 = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} convolution(%u, %u), dim_labels=bf_io->bf
  %gather.2 = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} all-gather(%s), channel_id=7, {_GATHER}
  ROOT %tuple.0 = (bf16[4096,4096]{{1,0:T(8,128)(2,1)}}, bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) tuple(%conv.0, %s, %gather.2)
}}

%body (state: (s32[], bf16[16,4096], bf16[4096,4096])) -> (s32[], bf16[16,4096], bf16[4096,4096]) {{
  %state = (s32[]{{:T(128)}}, bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) parameter(0)
  %i = s32[]{{:T(128)}} get-tuple-element(%state), index=0
  %w = bf16[16,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%state), index=1
  %x = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%state), index=2
  %two = s32[]{{:T(128)}} constant(2)
  %next = s32[]{{:T(128)}} add(%i, %two)
  %begin = (bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) fusion(%w), kind=kCustom, calls=%start
  %b0 = bf16[16,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%begin), index=0
  %b1 = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%begin), index=1
  %beside = (bf16[4096,4096]{{1,0:T(8,128)(2,1)}}, bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) fusion(%b0, %b1, %x), kind=kOutput, calls=%async_collective_fusion.1, backend_config={{"window_config":{{"estimated_cycles":"1100000"}}}}
  %y = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%beside), index=0
  %c0 = bf16[16,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%beside), index=1
  %c1 = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%beside), index=2
  %end = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} fusion(%c0, %c1), kind=kCustom, calls=%done
  %after = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} convolution(%y, %end), dim_labels=bf_io->bf, backend_config={{"window_config":{{"estimated_cycles":"1100000"}}}}
  ROOT %out = (s32[]{{:T(128)}}, bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) tuple(%next, %w, %after)
}}

%condition (at: (s32[], bf16[16,4096], bf16[4096,4096])) -> pred[] {{
  %at = (s32[]{{:T(128)}}, bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) parameter(0)
  %k = s32[]{{:T(128)}} get-tuple-element(%at), index=0
  %twenty = s32[]{{:T(128)}} constant(20)
  ROOT %less = pred[]{{:T(512)}} compare(%k, %twenty), direction=LT
}}

ENTRY %main (w0: bf16[16,4096], x0: bf16[4096,4096]) -> bf16[4096,4096] {{
  %w0 = bf16[16,4096]{{1,0:T(8,128)(2,1)}} parameter(0)
  %x0 = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} parameter(1)
  %zero = s32[]{{:T(128)}} constant(0)
  %init = (s32[]{{:T(128)}}, bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) tuple(%zero, %w0, %x0)
  %loop = (s32[]{{:T(128)}}, bf16[16,4096]{{1,0:T(8,128)(2,1)}}, bf16[4096,4096]{{1,0:T(8,128)(2,1)}}) while(%init), condition=%condition, body=%body
  ROOT %result = bf16[4096,4096]{{1,0:T(8,128)(2,1)}} get-tuple-element(%loop), index=2
}}
"""
