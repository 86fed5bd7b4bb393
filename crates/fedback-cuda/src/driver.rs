//! The driver of CUDA: the few calls that a run makes, found when a device is asked for.
//!
//! A binding of our own, since it is a page: a crate of bindings would bring thousands of functions
//! and their build. All `unsafe` of the crate is here. A [`Buffer`] knows how long it is, and whoever
//! copies to or from it says how many numbers that are; what kernels do is beyond what Rust can check,
//! and is why they are run on the host as well.

#![allow(unsafe_code, reason = "the driver is a C library")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use libloading::Library;

use crate::error::DeviceError;

/// The functions that are used, by their names in the library.
macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        #[allow(non_snake_case, reason = "they have these names in the library")]
        struct Functions {
            $($name: unsafe extern "system" fn($($argument),*) -> c_int,)*
            /// Keeps them where they are.
            _library: Library,
        }

        impl Functions {
            fn of(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: these are the types that the driver's header gives them.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

type Handle = *mut c_void;

functions! {
    cuInit(c_uint);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetName(*mut c_char, c_int, c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuCtxSetCurrent(Handle);
    cuCtxSynchronize();
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemcpyHtoD_v2(u64, *const c_void, usize);
    cuMemcpyDtoH_v2(*mut c_void, u64, usize);
    cuModuleLoadData(*mut Handle, *const c_void);
    cuModuleUnload(Handle);
    cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    cuModuleGetGlobal_v2(*mut u64, *mut usize, Handle, *const c_char);
    cuLaunchKernel(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut Handle,
        *mut Handle
    );
    cuGetErrorName(c_int, *mut *const c_char);
}

/// Attributes of devices, by their numbers in the driver's header.
const MULTIPROCESSORS: c_int = 16;
const MAJOR: c_int = 75;
const MINOR: c_int = 76;
/// The one error that is told apart.
const OUT_OF_MEMORY: c_int = 2;

#[cfg(windows)]
const LIBRARY: &str = "nvcuda.dll";
#[cfg(not(windows))]
const LIBRARY: &str = "libcuda.so.1";

/// A device, ready to be used.
#[derive(Clone)]
pub struct Gpu(Arc<Opened>);

struct Opened {
    functions: Functions,
    device: c_int,
    context: Handle,
    name: String,
    multiprocessors: usize,
}

// SAFETY: the driver's functions may be called from any thread; the context is made current before.
unsafe impl Send for Opened {}
// SAFETY: the same.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it was retained when this was made. There is nobody to tell of an error.
        unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

impl Functions {
    fn check(&self, call: &'static str, status: c_int) -> Result<(), DeviceError> {
        match status {
            0 => Ok(()),
            _ => Err(DeviceError::Failed { call, why: self.name(status) }),
        }
    }

    /// Of the calls that look for devices: what fails there means that there is none.
    fn look(&self, status: c_int) -> Result<(), DeviceError> {
        match status {
            0 => Ok(()),
            _ => Err(DeviceError::NoDevice(self.name(status))),
        }
    }

    /// What the driver calls an error.
    fn name(&self, status: c_int) -> String {
        let mut name = ptr::null();
        // SAFETY: the driver writes a pointer to text of its own, or none.
        let known = unsafe { (self.cuGetErrorName)(status, &mut name) } == 0 && !name.is_null();
        match known {
            // SAFETY: it ends in a zero, and is never freed.
            true => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
            false => format!("error {status}"),
        }
    }
}

impl Gpu {
    /// The first device that the driver shows; `CUDA_VISIBLE_DEVICES` chooses another.
    pub fn open() -> Result<Gpu, DeviceError> {
        let no_driver = |error: libloading::Error| DeviceError::NoDriver(error.to_string());
        // SAFETY: the library is the driver, by its name, and may run code when it is loaded.
        let library = unsafe { Library::new(LIBRARY) }.map_err(no_driver)?;
        let functions = Functions::of(library).map_err(no_driver)?;
        let (mut count, mut device) = (0, 0);
        // SAFETY: here and below, what is written to outlives the call.
        let status = unsafe { (functions.cuInit)(0) };
        functions.look(status)?;
        let status = unsafe { (functions.cuDeviceGetCount)(&mut count) };
        functions.look(status)?;
        if count == 0 {
            return Err(DeviceError::NoDevice("none is visible".into()));
        }
        let status = unsafe { (functions.cuDeviceGet)(&mut device, 0) };
        functions.check("cuDeviceGet", status)?;
        let mut text = [0 as c_char; 128];
        let length = text.len() as c_int - 1;
        let status = unsafe { (functions.cuDeviceGetName)(text.as_mut_ptr(), length, device) };
        functions.check("cuDeviceGetName", status)?;
        // SAFETY: the last character stayed zero.
        let name = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
        let attribute = |attribute| {
            let mut value = 0;
            let status = unsafe { (functions.cuDeviceGetAttribute)(&mut value, attribute, device) };
            functions.check("cuDeviceGetAttribute", status).map(|()| value)
        };
        let (major, minor) = (attribute(MAJOR)?, attribute(MINOR)?);
        if major < 8 {
            return Err(DeviceError::TooOld { name, major, minor });
        }
        let multiprocessors = attribute(MULTIPROCESSORS)?.max(1) as usize;
        let mut context = ptr::null_mut();
        let status = unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut context, device) };
        functions.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(Gpu(Arc::new(Opened { functions, device, context, name, multiprocessors })))
    }

    /// What the driver calls it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How many blocks can work at the same time, at least.
    pub(crate) fn multiprocessors(&self) -> usize {
        self.0.multiprocessors
    }

    /// Bytes of memory that are free.
    pub fn free(&self) -> Result<u64, DeviceError> {
        self.use_it()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both outlive the call.
        let status = unsafe { (self.0.functions.cuMemGetInfo_v2)(&mut free, &mut total) };
        self.check("cuMemGetInfo", status).map(|()| free as u64)
    }

    /// Makes the device that of this thread.
    pub(crate) fn use_it(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is retained.
        let status = unsafe { (self.0.functions.cuCtxSetCurrent)(self.0.context) };
        self.check("cuCtxSetCurrent", status)
    }

    /// Waits for all that was launched.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: no arguments.
        let status = unsafe { (self.0.functions.cuCtxSynchronize)() };
        self.check("cuCtxSynchronize", status)
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), DeviceError> {
        self.0.functions.check(call, status)
    }
}

/// Numbers that may lie on a device: every bit pattern is one.
pub(crate) trait Number: Copy + Default {}

impl Number for u64 {}
impl Number for f64 {}

/// Numbers in the device's memory.
pub(crate) struct Buffer<T> {
    gpu: Gpu,
    at: u64,
    len: usize,
    numbers: PhantomData<T>,
}

impl<T: Number> Buffer<T> {
    /// Room for so many numbers. What is in it is not known.
    pub(crate) fn room(gpu: &Gpu, len: usize) -> Result<Self, DeviceError> {
        let (mut at, size) = (0, (len * size_of::<T>()).max(1));
        // SAFETY: `at` outlives the call.
        let status = unsafe { (gpu.0.functions.cuMemAlloc_v2)(&mut at, size) };
        if status == OUT_OF_MEMORY {
            return Err(DeviceError::OutOfMemory { needed: size as u64, free: gpu.free()? });
        }
        gpu.check("cuMemAlloc", status)?;
        Ok(Buffer { gpu: gpu.clone(), at, len, numbers: PhantomData })
    }

    /// These numbers.
    pub(crate) fn of(gpu: &Gpu, numbers: &[T]) -> Result<Self, DeviceError> {
        let mut buffer = Buffer::room(gpu, numbers.len())?;
        buffer.put(numbers)?;
        Ok(buffer)
    }

    /// Writes as many numbers as there are, from the first on.
    pub(crate) fn put(&mut self, numbers: &[T]) -> Result<(), DeviceError> {
        assert!(numbers.len() <= self.len, "more numbers than there is room for");
        if numbers.is_empty() {
            return Ok(());
        }
        let (from, size) = (numbers.as_ptr().cast(), size_of_val(numbers));
        // SAFETY: both have so many bytes.
        let status = unsafe { (self.gpu.0.functions.cuMemcpyHtoD_v2)(self.at, from, size) };
        self.gpu.check("cuMemcpyHtoD", status)
    }

    /// Reads all of them.
    pub(crate) fn take(&self, out: &mut [T]) -> Result<(), DeviceError> {
        assert!(out.len() == self.len, "another number of numbers");
        if out.is_empty() {
            return Ok(());
        }
        let (to, size) = (out.as_mut_ptr().cast(), size_of_val(out));
        // SAFETY: both have so many bytes, and any of them are numbers.
        let status = unsafe { (self.gpu.0.functions.cuMemcpyDtoH_v2)(to, self.at, size) };
        self.gpu.check("cuMemcpyDtoH", status)
    }

    /// Where they lie on the device.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // It may be another thread than the one that worked. There is nobody to tell of an error.
        let _ = self.gpu.use_it();
        // SAFETY: it was allocated when this was made.
        unsafe { (self.gpu.0.functions.cuMemFree_v2)(self.at) };
    }
}

/// A structure that the device has a copy of, under a name: numbers of eight bytes and nothing else.
///
/// # Safety
/// Only for structures of `u64` and `f64` in the layout of C.
pub(crate) unsafe trait Constant {
    /// What the kernels call it.
    const NAME: &'static CStr;
}

/// The kernels of one run, and the structures that they read. Every run has its own, so that several
/// can share a device.
pub(crate) struct Module {
    gpu: Gpu,
    module: Handle,
}

/// A kernel of a module.
#[derive(Clone, Copy)]
pub(crate) struct Kernel(Handle);

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) blocks: usize,
    pub(crate) threads: usize,
    /// Bytes that the threads of a block share.
    pub(crate) shared: usize,
}

impl Module {
    /// Compiles PTX for the device.
    pub(crate) fn of(gpu: &Gpu, ptx: &CStr) -> Result<Self, DeviceError> {
        let mut module = ptr::null_mut();
        // SAFETY: the text ends in a zero.
        let status =
            unsafe { (gpu.0.functions.cuModuleLoadData)(&mut module, ptx.as_ptr().cast()) };
        gpu.check("cuModuleLoadData", status)?;
        Ok(Module { gpu: gpu.clone(), module })
    }

    /// A kernel by its name.
    pub(crate) fn kernel(&self, name: &CStr) -> Result<Kernel, DeviceError> {
        let functions = &self.gpu.0.functions;
        let mut kernel = ptr::null_mut();
        // SAFETY: the name ends in a zero.
        let status =
            unsafe { (functions.cuModuleGetFunction)(&mut kernel, self.module, name.as_ptr()) };
        self.gpu.check("cuModuleGetFunction", status)?;
        Ok(Kernel(kernel))
    }

    /// Gives the device a structure.
    pub(crate) fn put<T: Constant>(&self, constant: &T) -> Result<(), DeviceError> {
        let functions = &self.gpu.0.functions;
        let (mut at, mut size) = (0, 0);
        // SAFETY: the name ends in a zero, and both numbers outlive the call.
        let status = unsafe {
            (functions.cuModuleGetGlobal_v2)(&mut at, &mut size, self.module, T::NAME.as_ptr())
        };
        self.gpu.check("cuModuleGetGlobal", status)?;
        if size != size_of::<T>() {
            let why = format!("{:?} has {size} bytes, not {}", T::NAME, size_of::<T>());
            return Err(DeviceError::Failed { call: "cuModuleGetGlobal", why });
        }
        let from = ptr::from_ref(constant).cast();
        // SAFETY: both have so many bytes; a structure of numbers has no padding.
        let status = unsafe { (functions.cuMemcpyHtoD_v2)(at, from, size) };
        self.gpu.check("cuMemcpyHtoD", status)
    }

    /// Launches a kernel, without waiting for it.
    pub(crate) fn launch(&self, kernel: Kernel, shape: Shape) -> Result<(), DeviceError> {
        let Shape { blocks, threads, shared } = shape;
        let (none, no_arguments) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: kernels have no arguments; what they read was put before.
        let status = unsafe {
            (self.gpu.0.functions.cuLaunchKernel)(
                kernel.0,
                blocks as c_uint,
                1,
                1,
                threads as c_uint,
                1,
                1,
                shared as c_uint,
                none,
                no_arguments,
                ptr::null_mut(),
            )
        };
        self.gpu.check("cuLaunchKernel", status)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // As for memory.
        let _ = self.gpu.use_it();
        // SAFETY: it was loaded when this was made.
        unsafe { (self.gpu.0.functions.cuModuleUnload)(self.module) };
    }
}
