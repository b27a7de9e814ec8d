// SPDX-License-Identifier: Apache-2.0
// The only C++ of the library: where exceptions of oneDNN end.
#include "run/cpu/dnnl_guard.h"

#include <sys/mman.h>

#include <new>

#if DNNL_VERSION_MAJOR == 2
#include "run/cpu/dnnl_generation_2.h"
#elif DNNL_VERSION_MAJOR == 3
#include "run/cpu/dnnl_generation_3.h"
#else
#error "this generation of oneDNN is not known here: 2 from 2.6 on, and 3 are"
#endif

#define TRY(call)                          \
    do {                                   \
        dnnl_status_t try_status = (call); \
        if (try_status != dnnl_success) {  \
            return try_status;             \
        }                                  \
    } while (0)

namespace
{

using namespace ckm_i_generation;

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

template <typename Call> dnnl_status_t guard(Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return dnnl_out_of_memory;
    } catch (...) {
        return dnnl_runtime_error;
    }
}

template <typename Call> dnnl_status_t guard_with_room(Call call) noexcept
{
    return has_room() ? guard(call) : dnnl_out_of_memory;
}

// Attributes of every primitive: the scratchpad belongs to the caller.
class Attributes
{
  public:
    Attributes() = default;
    Attributes(const Attributes &) = delete;
    Attributes &operator=(const Attributes &) = delete;
    ~Attributes()
    {
        if (attributes_ != nullptr) {
            dnnl_primitive_attr_destroy(attributes_);
        }
    }

    dnnl_status_t create()
    {
        TRY(dnnl_primitive_attr_create(&attributes_));
        return dnnl_primitive_attr_set_scratchpad_mode(attributes_, dnnl_scratchpad_mode_user);
    }
    dnnl_primitive_attr_t get() const
    {
        return attributes_;
    }

  private:
    dnnl_primitive_attr_t attributes_ = nullptr;
};

// The description of a block of memory, which another object may own.
class Block
{
  public:
    dnnl_status_t describe(const ckm_i_dnnl_block &block)
    {
        borrowed_ = borrowed(block.wanted);
        if (borrowed_ == nullptr) {
            TRY(whole_.describe(*block.plain));
            borrowed_ = whole_.get();
        }
        if (block.size != nullptr) {
            TRY(part_.describe_part(borrowed_, block.size, block.at));
            borrowed_ = part_.get();
        }
        return dnnl_success;
    }
    Borrowed get() const
    {
        return borrowed_;
    }

  private:
    Description whole_, part_;
    Borrowed borrowed_ = nullptr;
};

}  // namespace

dnnl_status_t ckm_i_guard_engine_create(dnnl_engine_t *engine)
{
    // oneDNN 3 says "runtime error" where an allocation fails in there; nothing else that an engine of the CPU does can fail.
    dnnl_status_t status = guard_with_room([=] { return dnnl_engine_create(engine, dnnl_cpu, 0); });
    return status == dnnl_runtime_error ? dnnl_out_of_memory : status;
}

dnnl_status_t ckm_i_guard_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine)
{
    return guard_with_room([=] { return dnnl_stream_create(stream, engine, dnnl_stream_default_flags); });
}

dnnl_status_t ckm_i_guard_conv(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_conv *conv,
                               const_dnnl_primitive_desc_t hint)
{
    return guard_with_room([=] {
        Attributes attributes;
        Description src, weight, dst, bias;
        TRY(attributes.create());
        TRY(src.describe(conv->src));
        TRY(weight.describe(conv->weight));
        TRY(dst.describe(conv->dst));
        if (conv->bias.rank > 0) {
            TRY(bias.describe(conv->bias));
        }
        return make_conv(pd, engine, *conv, src.get(), weight.get(), conv->bias.rank > 0 ? bias.get() : nullptr,
                         dst.get(), hint, attributes.get());
    });
}

dnnl_status_t ckm_i_guard_eltwise(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map *map,
                                  const_dnnl_primitive_desc_t hint)
{
    return guard_with_room([=] {
        Attributes attributes;
        Description plain;
        TRY(attributes.create());
        TRY(plain.describe(map->plain));
        return make_eltwise(pd, engine, *map, plain.get(), hint, attributes.get());
    });
}

dnnl_status_t ckm_i_guard_softmax(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map *map,
                                  const_dnnl_primitive_desc_t hint)
{
    return guard_with_room([=] {
        Attributes attributes;
        Description plain;
        TRY(attributes.create());
        TRY(plain.describe(map->plain));
        return make_softmax(pd, engine, *map, plain.get(), hint, attributes.get());
    });
}

dnnl_status_t ckm_i_guard_product(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_product *product)
{
    return guard_with_room([=] {
        Attributes attributes;
        Description a, b, c, bias;
        TRY(attributes.create());
        if (product->alpha != 1.0F) {
            TRY(set_scale(attributes.get(), product->alpha));
        }
        TRY(a.describe(product->a));
        TRY(b.describe(product->b));
        TRY(c.describe(product->c));
        if (product->bias.rank > 0) {
            TRY(bias.describe(product->bias));
        }
        return make_product(pd, engine, a.get(), b.get(), product->bias.rank > 0 ? bias.get() : nullptr, c.get(),
                            attributes.get());
    });
}

dnnl_status_t ckm_i_guard_reorder(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_block *from,
                                  const ckm_i_dnnl_block *to)
{
    return guard_with_room([=] {
        Attributes attributes;
        Block source, target;
        TRY(attributes.create());
        TRY(source.describe(*from));
        TRY(target.describe(*to));
        return dnnl_reorder_primitive_desc_create(pd, source.get(), engine, target.get(), engine, attributes.get());
    });
}

const ckm_i_dnnl_format *ckm_i_guard_format(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return reinterpret_cast<const ckm_i_dnnl_format *>(dnnl_primitive_desc_query_md(pd, what, 0));
}

size_t ckm_i_guard_format_bytes(const ckm_i_dnnl_format *format)
{
    return dnnl_memory_desc_get_size(borrowed(format));
}

dnnl_status_t ckm_i_guard_format_is(const ckm_i_dnnl_format *format, const ckm_i_dnnl_tensor *plain, bool *same)
{
    return guard([=] {
        Description own;
        TRY(own.describe(*plain));
        *same = dnnl_memory_desc_equal(borrowed(format), own.get()) != 0;
        return dnnl_success;
    });
}

dnnl_status_t ckm_i_guard_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t pd)
{
    return guard_with_room([=] { return dnnl_primitive_create(primitive, pd); });
}

dnnl_status_t ckm_i_guard_memory_create(dnnl_memory_t *memory, dnnl_engine_t engine, const ckm_i_dnnl_block *block)
{
    return guard([=] {
        Block described;
        TRY(described.describe(*block));
        return dnnl_memory_create(memory, described.get(), engine, DNNL_MEMORY_NONE);
    });
}

dnnl_status_t ckm_i_guard_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int n_args,
                                  const dnnl_exec_arg_t *args)
{
    return guard([=] { return dnnl_primitive_execute(primitive, stream, n_args, args); });
}
