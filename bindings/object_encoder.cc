/// Objects to bytes. The form: docs/wire-format.md.

#include <nanobind/stl/string.h>

#include <bit>

#include "objects.h"

namespace unisono::python {
namespace {

/// An object that is not plain.
struct NotPlain {
  std::string what;
};

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}

  void item(nb::handle o) {
    const PyTypeObject* type = Py_TYPE(o.ptr());
    if (o.is_none()) return tag('N');
    if (type == &PyBool_Type) return tag(o.ptr() == Py_True ? 'T' : 'F');
    if (type == &PyLong_Type) return integer(o);
    if (type == &PyFloat_Type) return tag('f'), real(PyFloat_AsDouble(o.ptr()));
    if (type == &PyComplex_Type)
      return tag('c'), real(PyComplex_RealAsDouble(o.ptr())), real(PyComplex_ImagAsDouble(o.ptr()));
    if (type == &PyUnicode_Type) return text(o);
    if (type == &PyBytes_Type) return tag('b'), bytes(o);
    if (type == &PyTuple_Type) return tag('t'), sequence(o);
    // As it is now.
    if (type == &PyList_Type) return tag('l'), sequence(nb::steal(PyList_AsTuple(o.ptr())));
    if (type == &PyDict_Type) return dict(o);
    library(o);
  }

 private:
  void tag(char c) { out_.push_back(c); }
  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) out_.push_back(static_cast<char>(n | 0x80));
    out_.push_back(static_cast<char>(n));
  }
  void fixed(std::uint64_t bits) {
    for (int shift = 0; shift < 64; shift += 8) out_.push_back(static_cast<char>(bits >> shift));
  }
  void real(double value) { fixed(std::bit_cast<std::uint64_t>(value)); }
  void bytes(nb::handle o) {
    number(static_cast<std::uint64_t>(PyBytes_Size(o.ptr())));
    out_.append(PyBytes_AsString(o.ptr()), static_cast<std::size_t>(PyBytes_Size(o.ptr())));
  }

  void integer(nb::handle o) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(o.ptr(), &overflow);
    if (overflow == 0) return tag('i'), fixed(static_cast<std::uint64_t>(value));
    const auto size = nb::cast<std::int64_t>(o.attr("bit_length")()) / 8 + 1;
    tag('I');
    bytes(o.attr("to_bytes")(size, "little", nb::arg("signed") = true));
  }

  void text(nb::handle o) {
    const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(o.ptr(), "utf-8", "surrogatepass"));
    if (!encoded.is_valid()) throw nb::python_error();
    tag('s');
    bytes(encoded);
  }

  void sequence(nb::handle items) {
    if (!items.is_valid()) throw nb::python_error();
    enter();
    const Py_ssize_t n = PyTuple_Size(items.ptr());
    number(static_cast<std::uint64_t>(n));
    for (Py_ssize_t i = 0; i < n; i++) item(PyTuple_GetItem(items.ptr(), i));
    depth_--;
  }

  void dict(nb::handle o) {
    const nb::object pairs = nb::steal(PyDict_Items(o.ptr()));  // as it is now
    if (!pairs.is_valid()) throw nb::python_error();
    enter();
    tag('d');
    const Py_ssize_t n = PyList_Size(pairs.ptr());
    number(static_cast<std::uint64_t>(n));
    for (Py_ssize_t i = 0; i < n; i++) {
      const nb::handle pair = PyList_GetItem(pairs.ptr(), i);
      item(PyTuple_GetItem(pair.ptr(), 0));
      item(PyTuple_GetItem(pair.ptr(), 1));
    }
    depth_--;
  }

  void enter() {
    if (++depth_ > kMaxNesting)
      throw NotPlain{"lists or dicts more than " + std::to_string(kMaxNesting) + " deep, or one that contains itself"};
  }

  /// NumPy's and torch's.
  void library(nb::handle o) {
    const std::string name = type_of(o);
    if (name == "numpy.ndarray") return tag('a'), array(o, o.attr("dtype"), name);
    if (name == "numpy.str_") return tag('h'), text(o);
    if (name == "numpy.bytes_") return tag('h'), tag('b'), bytes(o);
    if (name == "torch.Tensor") return tensor(o);
    if (name.starts_with("numpy.") && nb::isinstance(o, nb::module_::import_("numpy").attr("generic")))
      return tag('g'), array(o, o.attr("dtype"), name);
    throw NotPlain{"a " + name};
  }

  void array(nb::handle o, const nb::object& dtype, const std::string& name) {
    const auto kind = nb::cast<std::string>(dtype.attr("kind"));
    const auto itemsize = nb::cast<std::int64_t>(dtype.attr("itemsize"));
    const nb::object text = dtype.attr("str");
    // As the processor has it.
    const bool wide = (kind == "f" && itemsize > 8) || (kind == "c" && itemsize > 16);
    const bool named =
        !dtype.attr("fields").is_none() || !nb::module_::import_("numpy").attr("dtype")(text).equal(dtype);
    if (kind == "O" || itemsize == 0 || wide || named) throw NotPlain{"a " + name + " of " + text_of(dtype)};
    short_text(nb::cast<std::string>(text));
    shape(o.attr("shape"));
    bytes(o.attr("tobytes")());
  }

  void tensor(nb::handle o) {
    const auto torch = nb::module_::import_("torch");
    const std::string dtype = text_of(o.attr("dtype"));  // torch.float32
    const bool plain = text_of(o.attr("device").attr("type")) == "cpu" && o.attr("layout").is(torch.attr("strided")) &&
                       !nb::cast<bool>(o.attr("requires_grad")) && !nb::cast<bool>(o.attr("is_quantized"));
    if (!plain) throw NotPlain{"a torch.Tensor that requires gradients, is sparse, quantized or on a device"};
    tag('u');
    short_text(dtype.substr(dtype.find('.') + 1));
    shape(o.attr("shape"));
    const nb::object flat = o.attr("resolve_conj")().attr("resolve_neg")().attr("contiguous")().attr("reshape")(-1);
    bytes(flat.attr("view")(torch.attr("uint8")).attr("numpy")().attr("tobytes")());
  }

  void short_text(const std::string& text) {
    number(text.size());
    out_ += text;
  }

  void shape(const nb::object& extents) {
    number(nb::len(extents));
    for (const nb::handle extent : extents) number(nb::cast<std::uint64_t>(extent));
  }

  std::string& out_;
  int depth_ = 0;
};

constexpr const char* kPlain = "UO\1S";
constexpr const char* kPickled = "UO\1P";
constexpr const char* kFailed = "UO\1E";

}  // namespace

std::string encode_object(nb::handle object, bool pickle, const char* operation) {
  return call_interpreter([&] {
    try {
      std::string out = kPlain;
      Encoder(out).item(object);
      return out;
    } catch (const NotPlain& it) {
      if (!pickle)
        refuse(operation, ": the object is or contains ", it.what,
               ", which only pickle can send. Unpickling runs what the sender chose: give pickle=True on all ranks if "
               "every rank is trusted, or send lists, dicts, numbers, text, bytes and arrays");
    }
    const nb::object data = nb::module_::import_("unisono._pickling").attr("dumps")(object);
    return kPickled + std::string(PyBytes_AsString(data.ptr()), static_cast<std::size_t>(PyBytes_Size(data.ptr())));
  });
}

std::string encode_failure(const std::string& why) { return kFailed + why; }

}  // namespace unisono::python
