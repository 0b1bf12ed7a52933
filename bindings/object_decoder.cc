/// Bytes to objects. Nothing here trusts them: lengths are checked against what is left, nesting is
/// bounded.

#include <algorithm>
#include <bit>
#include <cstring>

#include "objects.h"

namespace unisono::python {
namespace {

/// Why the bytes are no object.
struct Damaged {
  std::string why;
};

/// Text of a sender's, fit for a message.
std::string printable(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(result, [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t at() const noexcept { return at_; }
  bool at_end() const noexcept { return at_ == bytes_.size(); }

  nb::object item() {
    const char kind = static_cast<char>(take(1)[0]);
    switch (kind) {
      case 'N':
        return nb::none();
      case 'T':
        return nb::bool_(true);
      case 'F':
        return nb::bool_(false);
      case 'i':
        return nb::int_(static_cast<std::int64_t>(fixed()));
      case 'I':
        return big_integer();
      case 'f':
        return nb::float_(real());
      case 'c':
        return complex();
      case 's':
        return text();
      case 'b':
        return raw();
      case 't':
      case 'l':
        return sequence(kind == 'l');
      case 'd':
        return dict();
      case 'h':
        return numpy_text();
      case 'a':
        return array();
      case 'g':
        return array()[nb::tuple()];
      case 'u':
        return tensor();
      default:
        throw Damaged{"unknown kind " + std::to_string(static_cast<unsigned char>(kind))};
    }
  }

 private:
  std::span<const std::byte> take(std::uint64_t n) {
    if (n > bytes_.size() - at_)
      throw Damaged{std::to_string(n) + " bytes should follow and " + std::to_string(bytes_.size() - at_) + " do"};
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(n));
    at_ += part.size();
    return part;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto next = static_cast<std::uint64_t>(take(1)[0]);
      value |= (next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    throw Damaged{"a number of more than 64 bits"};
  }
  std::uint64_t fixed() {
    std::uint64_t bits = 0;
    const auto part = take(8);
    for (int i = 0; i < 8; i++) bits |= static_cast<std::uint64_t>(part[static_cast<std::size_t>(i)]) << (8 * i);
    return bits;
  }
  double real() { return std::bit_cast<double>(fixed()); }
  nb::bytes raw() {
    const auto part = take(number());
    return nb::bytes(part.data(), part.size());
  }
  nb::object complex() {
    const double re = real(), im = real();
    return checked(PyComplex_FromDoubles(re, im));
  }
  nb::object big_integer() {
    return nb::borrow(reinterpret_cast<PyObject*>(&PyLong_Type))
        .attr("from_bytes")(raw(), "little", nb::arg("signed") = true);
  }
  nb::object text() {
    const auto part = take(number());
    return checked(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(part.data()),
                                        static_cast<Py_ssize_t>(part.size()), "surrogatepass"));
  }
  nb::object numpy_text() {
    const char kind = static_cast<char>(take(1)[0]);
    if (kind != 's' && kind != 'b') throw Damaged{"a NumPy string that is no string"};
    const auto numpy = nb::module_::import_("numpy");
    return kind == 's' ? numpy.attr("str_")(text()) : numpy.attr("bytes_")(raw());
  }

  /// How many items follow, each of which has `least` bytes or more.
  Py_ssize_t length(std::uint64_t least) {
    const std::uint64_t n = number();
    if (n > (bytes_.size() - at_) / least) throw Damaged{std::to_string(n) + " items, for which there is no room"};
    if (++depth_ > kMaxNesting) throw Damaged{"nesting deeper than " + std::to_string(kMaxNesting)};
    return static_cast<Py_ssize_t>(n);
  }
  nb::object sequence(bool is_list) {
    const Py_ssize_t n = length(1);
    nb::list items;
    for (Py_ssize_t i = 0; i < n; i++) items.append(item());
    depth_--;
    return is_list ? nb::object(items) : checked(PyList_AsTuple(items.ptr()));
  }
  nb::object dict() {
    const Py_ssize_t n = length(2);
    nb::dict result;
    for (Py_ssize_t i = 0; i < n; i++) {
      const nb::object key = item(), value = item();
      if (PyDict_SetItem(result.ptr(), key.ptr(), value.ptr()) != 0) throw nb::python_error();
    }
    depth_--;
    return result;
  }

  std::string short_text() {
    const auto part = take(number());
    if (part.size() > 32) throw Damaged{"a type's name of " + std::to_string(part.size()) + " bytes"};
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  /// Extents; `elements` is their product, saturated.
  nb::object shape(std::uint64_t& elements) {
    const std::uint64_t n = number();
    if (n > 64) throw Damaged{"an array of " + std::to_string(n) + " dimensions"};
    nb::list extents;
    elements = 1;
    for (std::uint64_t i = 0; i < n; i++) {
      const std::uint64_t extent = number();
      if (extent > static_cast<std::uint64_t>(PY_SSIZE_T_MAX)) throw Damaged{"a dimension of more than 2^63 elements"};
      if (__builtin_mul_overflow(elements, extent, &elements)) elements = UINT64_MAX;
      extents.append(extent);
    }
    return nb::tuple(extents);
  }
  /// The elements in memory that can be written.
  nb::object elements_of(std::uint64_t count, std::uint64_t itemsize) {
    const auto part = take(number());
    std::uint64_t expected = 0;
    if (__builtin_mul_overflow(count, itemsize, &expected) || expected != part.size())
      throw Damaged{"an array whose shape needs " + std::to_string(expected) + " bytes has " +
                    std::to_string(part.size())};
    return checked(PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(part.data()),
                                                 static_cast<Py_ssize_t>(part.size())));
  }
  nb::object array() {
    const std::string name = short_text();
    const bool known = name.size() >= 3 && std::strchr("<>|", name[0]) != nullptr &&
                       std::strchr("biufcSUVMm", name[1]) != nullptr && std::ranges::all_of(name.substr(2), [](char c) {
                         return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '[' || c == ']' || c == 'D' ||
                                c == 'M' || c == 'W' || c == 'Y';
                       });
    if (!known) throw Damaged{"element type \"" + printable(name) + "\""};
    const auto numpy = nb::module_::import_("numpy");
    const nb::object dtype = numpy.attr("dtype")(name.c_str());
    std::uint64_t count = 0;
    const nb::object extents = shape(count);
    const auto itemsize = nb::cast<std::uint64_t>(dtype.attr("itemsize"));
    if (itemsize == 0 || nb::cast<bool>(dtype.attr("hasobject")))
      throw Damaged{"element type \"" + printable(name) + "\""};
    return numpy.attr("ndarray")(extents, dtype, elements_of(count, itemsize));
  }
  nb::object tensor() {
    const std::string name = short_text();
    constexpr std::string_view kFamilies[] = {"float", "bfloat16", "int", "uint", "bool", "complex"};
    if (std::ranges::none_of(kFamilies, [&](std::string_view family) { return name.starts_with(family); }) ||
        printable(name) != name)
      throw Damaged{"torch has no element type \"" + printable(name) + "\""};
    nb::object torch;
    try {
      torch = nb::module_::import_("torch");
    } catch (nb::python_error& e) {
      throw Damaged{"it has a torch tensor, and torch cannot be imported here (" + text_of(e.value()) + ")"};
    }
    const nb::object dtype = nb::getattr(torch, name.c_str(), nb::none());
    if (!nb::isinstance(dtype, torch.attr("dtype")))
      throw Damaged{"torch has no element type \"" + printable(name) + "\""};
    std::uint64_t count = 0;
    const nb::object extents = shape(count);
    const nb::object memory = elements_of(count, nb::cast<std::uint64_t>(dtype.attr("itemsize")));
    if (count == 0) return torch.attr("empty")(extents, nb::arg("dtype") = dtype);
    return torch.attr("frombuffer")(memory, nb::arg("dtype") = dtype).attr("reshape")(extents);
  }

  static nb::object checked(PyObject* made) {
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

std::string sender(int source) { return source < 0 ? "it was given" : "rank " + std::to_string(source) + " sent"; }

nb::object decode_plain(std::span<const std::byte> body, const char* operation, int source) {
  Decoder decoder(body);
  std::string why;
  try {
    nb::object object = decoder.item();
    if (decoder.at_end()) return object;
    why = "more bytes follow the object";
  } catch (const Damaged& damage) {
    why = damage.why;
  } catch (nb::python_error& e) {
    if (e.matches(PyExc_KeyboardInterrupt)) throw;
    why = text_of(e.value());
  }
  refuse(operation, ": the object that ", sender(source), " cannot be read at byte ", decoder.at(), " of ", body.size(),
         ": ", why);
}

}  // namespace

nb::object decode_object(std::span<const std::byte> bytes, bool pickle, const char* operation, int source) {
  constexpr std::size_t kHeader = 4;
  const bool ours = bytes.size() >= kHeader && std::memcmp(bytes.data(), "UO\1", 3) == 0;
  const char kind = ours ? static_cast<char>(bytes[3]) : '\0';
  if (kind != 'S' && kind != 'P' && kind != 'E')
    refuse(operation, ": what ", sender(source), " (", bytes.size(),
           " bytes) is no object; every rank must call the same operation of one version of unisono");
  const auto body = bytes.subspan(kHeader);
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  return call_interpreter([&]() -> nb::object {
    if (kind == 'S') return decode_plain(body, operation, source);
    if (kind == 'E') refuse(operation, ": rank ", source, " has no object to send: ", printable(text));
    if (!pickle)
      refuse(
          operation, ": rank ", source,
          " sent a pickled object. Unpickling runs what the sender chose: give pickle=True here, too, if every rank is "
          "trusted");
    return nb::module_::import_("unisono._pickling").attr("loads")(nb::bytes(body.data(), body.size()));
  });
}

}  // namespace unisono::python
