// SPDX-License-Identifier: Apache-2.0
// The only C++ of the library: where exceptions of oneDNN end.
#include "run/cpu/dnnl_guard.h"

#include <sys/mman.h>

#include <new>

namespace {

// More than any primitive was seen to take while it is made: a product has up to some dozen buffers of 256 KiB for code.
constexpr std::size_t room_bytes = std::size_t(16) << 20;

bool has_room()
{
    void *room = mmap(nullptr, room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return false;
    }
    (void)munmap(room, room_bytes);
    return true;
}

template <typename Call>
dnnl_status_t guard(Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return dnnl_out_of_memory;
    } catch (...) {
        return dnnl_runtime_error;
    }
}

template <typename Call>
dnnl_status_t guard_with_room(Call call) noexcept
{
    return has_room() ? guard(call) : dnnl_out_of_memory;
}

}  // namespace

dnnl_status_t ckm_i_guard_engine_create(dnnl_engine_t *engine)
{
    return guard_with_room([=] { return dnnl_engine_create(engine, dnnl_cpu, 0); });
}

dnnl_status_t ckm_i_guard_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine)
{
    return guard_with_room([=] { return dnnl_stream_create(stream, engine, dnnl_stream_default_flags); });
}

dnnl_status_t ckm_i_guard_attr_create(dnnl_primitive_attr_t *attributes)
{
    return guard([=] { return dnnl_primitive_attr_create(attributes); });
}

dnnl_status_t ckm_i_guard_attr_set_output_scale(dnnl_primitive_attr_t attributes, float scale)
{
    return guard([=] { return dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &scale); });
}

dnnl_status_t ckm_i_guard_primitive_desc_create(dnnl_primitive_desc_t *pd, const_dnnl_op_desc_t desc,
                                                const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine,
                                                const_dnnl_primitive_desc_t hint)
{
    return guard_with_room([=] { return dnnl_primitive_desc_create(pd, desc, attributes, engine, hint); });
}

dnnl_status_t ckm_i_guard_reorder_desc_create(dnnl_primitive_desc_t *pd, const dnnl_memory_desc_t *from,
                                              const dnnl_memory_desc_t *to, dnnl_engine_t engine,
                                              const_dnnl_primitive_attr_t attributes)
{
    return guard_with_room(
        [=] { return dnnl_reorder_primitive_desc_create(pd, from, engine, to, engine, attributes); });
}

dnnl_status_t ckm_i_guard_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t pd)
{
    return guard_with_room([=] { return dnnl_primitive_create(primitive, pd); });
}

dnnl_status_t ckm_i_guard_memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *desc, dnnl_engine_t engine)
{
    return guard([=] { return dnnl_memory_create(memory, desc, engine, DNNL_MEMORY_NONE); });
}

dnnl_status_t ckm_i_guard_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int n_args,
                                  const dnnl_exec_arg_t *args)
{
    return guard([=] { return dnnl_primitive_execute(primitive, stream, n_args, args); });
}
